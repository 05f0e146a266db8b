//! Windows and the edges of time buckets: never slept through, but with rows that are as old as they need to be.

use std::sync::Arc;

use tokio::sync::Barrier;

use super::{BUCKETS, NATURAL, NATURAL_BUCKETS, PROXY, requests, submit, with_keys};
use crate::support::{
    TestDatabase,
    race::Session,
    sql::{run, value},
};

const ASK: &str = "'orders', '{\"order\": {\"id\": 1}, \"op\": 1}'";

async fn with_a_window(columns: &str) -> TestDatabase {
    let database = with_keys(columns).await;
    database.execute("update tidegate.policy set dedup_window = '1 hour' where kind = 'orders'").await;
    database
}

/// Lets everything that is stored have been stored so much earlier, in the bucket of that time.
async fn age(database: &TestDatabase, by: &str) {
    database
        .execute(&format!(
            "update tidegate.dedup as d
             set first_seen = d.first_seen - interval '{by}', expires_at = d.expires_at - interval '{by}',
               key = tidegate_internal.key_bucket(k.key_bucket, d.first_seen - interval '{by}')
             from tidegate.kind as k where k.name = 'orders'"
        ))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn just_inside_the_window_it_is_the_same_request_and_just_outside_a_new_one() {
    for columns in [NATURAL, PROXY, BUCKETS, NATURAL_BUCKETS] {
        let database = with_a_window(columns).await;
        let (_, first) = submit(&database, ASK).await;
        database.answer_all().await;
        // In the bucket before, in one of those between, and in the one that the window has only just left.
        for by in ["10 minutes", "15 minutes", "34 minutes"] {
            age(&database, by).await;
            assert_eq!(submit(&database, ASK).await, ("replayed".to_owned(), first.clone()), "{columns}: {by}");
        }
        // The end of its window is this instant.
        age(&database, "1 minute").await;
        let (outcome, second) = submit(&database, ASK).await;
        assert_eq!((outcome.as_str(), second == first), ("accepted", false));
        assert_eq!(submit(&database, ASK).await, ("replayed".to_owned(), second));
        assert_eq!(requests(&database).await, 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn natural_keys_have_buckets_whose_edges_hide_no_duplicate_and_no_other_payload() {
    let database = with_a_window(NATURAL_BUCKETS).await;
    let (_, first) = submit(&database, ASK).await;
    database.answer_all().await;
    age(&database, "10 minutes").await;
    let other = "select tidegate.submit('orders', '{\"order\": {\"id\": 1}, \"op\": 1, \"note\": 2}')";
    for _ in 0..2 {
        // The bucket before holds the key of the same values.
        assert_eq!(submit(&database, ASK).await, ("replayed".to_owned(), first.clone()));
        assert_eq!(database.refused(other).await.code, "TG004");
    }

    // In the next window the key is stored again, in its own bucket.
    age(&database, "50 minutes").await;
    assert_eq!(submit(&database, ASK).await.0, "accepted");
    let buckets = "select string_agg(split_part(scope, ' ', 1) || ' ' || (key ~ '^....-..-.. ..:.0:00[.]0+$'), ', ')
                   from tidegate.dedup";
    assert_eq!(database.value(buckets).await, "natural true, natural true");
}

#[tokio::test(flavor = "multi_thread")]
async fn to_the_microsecond_the_end_of_the_window_is_outside_whatever_the_bucket() {
    for columns in [NATURAL, PROXY, BUCKETS, NATURAL_BUCKETS] {
        let database = with_a_window(columns).await;
        submit(&database, ASK).await;
        database.answer_all().await;
        for by in ["0", "10 minutes", "59 minutes"] {
            age(&database, by).await;
            for (instant, found) in [
                ("d.first_seen", "t"),
                ("d.expires_at - interval '1 microsecond'", "t"),
                ("d.expires_at", "f"),
                ("d.expires_at + interval '1 microsecond'", "f"),
            ] {
                assert_eq!(
                    database
                        .value(&format!(
                            "select tidegate_internal.dedup_find_derived(d.scope, d.fingerprint, {instant}) is not null from tidegate.dedup as d"
                        ))
                        .await,
                    found,
                    "{columns}: {instant}"
                );
            }
        }
        assert_eq!(
            database
                .value("select expires_at - first_seen = '1 hour' and dedup_window = '1 hour' from tidegate.dedup")
                .await,
            "t"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_begins_at_its_edge_and_not_a_microsecond_before() {
    let database = TestDatabase::new().await;
    for (bucket, at, key) in [
        ("'10 minutes'", "2026-01-01 12:09:59.999999Z", "2026-01-01 12:00:00.000000"),
        ("'10 minutes'", "2026-01-01 12:10:00Z", "2026-01-01 12:10:00.000000"),
        ("'1 day'", "2026-01-01 23:59:59.999999Z", "2026-01-01 00:00:00.000000"),
        ("'250 milliseconds'", "2026-01-01 12:00:00.749999Z", "2026-01-01 12:00:00.500000"),
        ("'250 milliseconds'", "2026-01-01 12:00:00.75Z", "2026-01-01 12:00:00.750000"),
        ("null", "2026-01-01 12:00:00Z", "any time"),
    ] {
        // Wherever the session is.
        for zone in ["UTC", "Asia/Kathmandu"] {
            let mut session = database.session().await;
            run(&mut session, &format!("set timezone = '{zone}'")).await;
            assert_eq!(
                value(&mut session, &format!("select tidegate_internal.key_bucket({bucket}, '{at}')")).await,
                key
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_window_of_days_has_24_hours_in_each_where_clocks_change_too() {
    let database = TestDatabase::unlimited().await;
    database
        .execute("update tidegate.policy set dedup_window = '400 days'; update tidegate.kind set retention = null")
        .await;
    let mut session = database.session().await;
    run(&mut session, "set timezone = 'Europe/Berlin'; select tidegate.submit('direct', '1', 'k')").await;
    assert_eq!(
        value(&mut session, "select extract(epoch from expires_at - first_seen) / 3600 = 9600 from tidegate.dedup")
            .await,
        "t"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn first_arrivals_on_both_sides_of_an_edge_make_one_request() {
    for (ends, expected) in [("commit", "replayed"), ("rollback", "accepted")] {
        let database = with_a_window(BUCKETS).await;
        let mut first = Session::begin(&database).await;
        first.texts(&format!("select outcome from tidegate.submit({ASK})")).await;
        // It has read the clock before the edge: the other will not find this row in its way.
        first
            .execute("update tidegate.dedup set key = tidegate_internal.key_bucket('10 minutes', first_seen - interval '10 minutes')")
            .await;

        let second = Session::open(&database).await.start(&format!("select outcome from tidegate.submit({ASK})"));
        second.until_blocked_by(&database, &first).await;
        first.execute(ends).await;

        assert_eq!(second.finish().await.1, [expected], "{ends}");
        assert_eq!(requests(&database).await, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_who_arrive_at_once_while_edges_pass_by_make_one_request() {
    let database = with_a_window("key_mode = 'proxy', key_bucket = '100 microseconds'").await;
    let (actors, rounds) = (6, 40);
    let barrier = Arc::new(Barrier::new(actors));
    let mut tasks = Vec::new();
    for _ in 0..actors {
        let mut session = Session::open(&database).await;
        let barrier = Arc::clone(&barrier);
        tasks.push(tokio::spawn(async move {
            let mut ids = Vec::new();
            for round in 0..rounds {
                barrier.wait().await;
                ids.push(session.text(&format!("select id from tidegate.submit('orders', '{round}')")).await);
            }
            ids
        }));
    }
    let mut told = Vec::new();
    for task in tasks {
        told.push(task.await.unwrap());
    }
    for ids in &told {
        assert_eq!(ids, &told[0]);
    }
    assert_eq!(requests(&database).await, rounds);
    let keys = database.number("select count(distinct key) from tidegate.dedup").await;
    assert!(keys > 1, "no edge has passed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_the_buckets_loses_no_duplicate() {
    let database = with_a_window(BUCKETS).await;
    let (_, first) = submit(&database, ASK).await;
    age(&database, "25 minutes").await;
    for bucket in ["'7 minutes'", "'1 day'", "null", "'1 second'"] {
        database.execute(&format!("update tidegate.kind set key_bucket = {bucket} where name = 'orders'")).await;
        assert_eq!(submit(&database, ASK).await, ("replayed".to_owned(), first.clone()), "{bucket}");
    }
    // Nor does one of the window: what was stored stands as long as it was to stand.
    database
        .execute("update tidegate.policy set dedup_window = '10 minutes', span_reorder = '0' where kind = 'orders'")
        .await;
    assert_eq!(submit(&database, ASK).await, ("replayed".to_owned(), first));
}

#[tokio::test(flavor = "multi_thread")]
async fn after_many_failures_in_as_many_buckets_the_last_request_is_found() {
    let database = with_a_window("key_mode = 'proxy', key_bucket = '1 second'").await;
    let (_, id) = submit(&database, ASK).await;
    database
        .execute(
            "insert into tidegate.dedup (scope, key, fingerprint, request_id, first_seen, dedup_window, expires_at)
             select d.scope, tidegate_internal.key_bucket('1 second', d.first_seen - n * interval '1 second'), d.fingerprint,
               gen_random_uuid(), d.first_seen - n * interval '1 second', d.dedup_window, d.expires_at - n * interval '1 second'
             from tidegate.dedup as d, generate_series(1, 3000) as n;
             analyze tidegate.dedup",
        )
        .await;
    assert_eq!(submit(&database, ASK).await, ("replayed".to_owned(), id));
}

#[tokio::test(flavor = "multi_thread")]
async fn derived_keys_are_found_by_index_among_any_number_of_callers_keys() {
    let database = with_a_window(BUCKETS).await;
    database
        .execute(
            "insert into tidegate.dedup (scope, key, fingerprint, request_id, first_seen, dedup_window, expires_at)
             select 'orders:', 'key-' || n, '', gen_random_uuid(), now(), interval '1 hour', now() + interval '1 hour'
             from generate_series(1, 50000) as n;
             analyze tidegate.dedup",
        )
        .await;
    let mut session = Session::open(&database).await;
    // More than five times each: a plan may turn from custom to generic.
    for round in 0..8 {
        let ask = format!("select outcome from tidegate.submit('orders', '{round}')");
        let known = "select count(*) from tidegate.submit_batch('orders', array['0', '\"new\"', '0']::jsonb[])";
        for call in [&*ask, &ask, known] {
            let read = session.reads("dedup", call).await;
            assert_eq!(read.scans, 0, "round {round}: {call}");
        }
    }
    let requests = "select count(*) from tidegate.request";
    assert_eq!(database.number(requests).await, 9);
}
