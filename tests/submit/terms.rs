//! Do plain submissions go by the configuration as it is, whatever changes it and when?

use std::collections::BTreeSet;

use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};

use crate::support::{
    TestDatabase, campaign,
    race::{Session, sound},
};

const TERMS: &str = "select t::text from tidegate.submit_terms as t order by t.kind";
const STATED: &str = "select to_jsonb(s) - 'id' from tidegate.submit('direct', '{}', submitter => 'me') as s";

/// Changes of each source that plain submissions of `direct` have to heed.
const CHANGES: [&str; 20] = [
    "update tidegate.kind set deadline = '2 hours' where name = 'direct'",
    "update tidegate.kind set set_paths = '{list}' where name = 'direct'",
    "update tidegate.kind set response_threshold = 1, processing_ms = 50000 where name = 'direct'",
    "update tidegate.kind set key_mode = 'proxy' where name = 'direct'",
    "update tidegate.kind set eta = 'observed' where name = 'direct'",
    "insert into tidegate.kind (name, flow, tx_queue, processing_ms, tx_confirmation_ms) values ('other', 'direct', 'tx', 1, 1)",
    "update tidegate.policy set dedup_window = '3 hours' where kind = 'direct' and stage = 'tx'",
    "update tidegate.policy set breaker_error_rate = 0.5 where kind = 'direct' and stage = 'tx'",
    "update tidegate.setting set min_seconds = 5, max_seconds = 7",
    "update tidegate.setting set safety_margin = 0.9",
    "update tidegate.queue set per_seconds = 5 where name = 'tx'",
    "update tidegate.gate set high_water = 2, low_water = 1 where queue = 'tx'",
    "update tidegate.gate set mode = 'soft' where queue = 'tx'",
    "select tidegate.pause('tx')",
    "select tidegate.pause(kind => 'direct')",
    "select tidegate.gate_force('tx', 'accepting', 'ann')",
    "select tidegate.gate_force('tx', 'too_many_requests', 'ann')",
    "select tidegate.quota_set(submitter => 'me', high_water => 2)",
    "select tidegate.quota_set(kind => 'direct', high_water => 2)",
    "select * from tidegate.config_set('direct.deadline', '3 hours')",
];

#[tokio::test(flavor = "multi_thread")]
async fn submissions_heed_every_change_within_its_transaction_and_after_it() {
    for change in CHANGES {
        let mut told = Vec::new();
        for way in ["within", "after"] {
            let database = TestDatabase::unlimited().await;
            let mut session = Session::open(&database).await;
            session.execute("update tidegate.setting set jitter = 0").await;
            let before = session.texts(TERMS).await;
            session.execute("begin").await;
            session.texts(change).await;
            session.rollback().await;
            assert_eq!(session.texts(TERMS).await, before, "{change}");

            session.execute("begin").await;
            session.texts(change).await;
            if way == "after" {
                session.commit().await;
            }
            let stated = [session.texts(STATED).await, session.texts(STATED).await, session.texts(STATED).await];
            if way == "within" {
                session.commit().await;
            }
            assert_ne!(session.texts(TERMS).await, before, "{change}");
            sound(&database).await;
            told.push(stated);
        }
        assert_eq!(told[0], told[1], "{change}");
    }
}

/// A transaction that has changed the configuration submits without the terms.
#[tokio::test(flavor = "multi_thread")]
async fn an_observed_eta_is_that_of_a_submission_without_terms() {
    let database = TestDatabase::unlimited().await;
    database.stop_clock().await;
    let mut session = Session::open(&database).await;
    session
        .execute(
            "update tidegate.setting set jitter = 0;
             update tidegate.kind set eta = 'observed' where name = 'direct';
             select count(*) from tidegate.submit_batch('direct', array_fill('1'::jsonb, array[100]));
             insert into tidegate.kind_pace (kind, samples, in_flight, observed_at) values ('direct', 0, 0, 'infinity');
             insert into tidegate.queue_pace (queue, observed_at) values ('tx', 'infinity')",
        )
        .await;
    let told = "select queue_position, retry_after_seconds, eta_p50_ms, eta_p90_ms
                from tidegate.submit_group('direct', array['{}'::jsonb])";
    let stored = "select eta_seconds, eta_p50_ms, eta_p90_ms from tidegate.request order by msg_id desc limit 1";
    let mut sorts = BTreeSet::new();
    for answers in ["null", "array(select 40 + n * 7.5 from generate_series(1, 40) as n)"] {
        for still in ["null", "tidegate.clock() - interval '20 seconds'"] {
            for (per_second, limit) in [("null", "null"), ("3", "null"), ("null", "7"), ("3", "7")] {
                session
                    .execute(&format!(
                        "update tidegate.kind_pace set answer_ms = {answers}, still_since = {still};
                         update tidegate.queue_pace set per_second = {per_second};
                         update tidegate.queue set per_seconds = {limit} where name = 'tx'"
                    ))
                    .await;
                let mut ways = Vec::new();
                for changed in ["off", "on"] {
                    session.execute("begin").await;
                    session.execute(&format!("set local tidegate.config_changed = '{changed}'")).await;
                    ways.push((session.text(told).await, session.text(stored).await));
                    session.rollback().await;
                }
                assert_eq!(ways[0], ways[1], "{answers}, {still}, {per_second}, {limit}");
                assert!(ways[0].0.ends_with(&ways[0].1), "{ways:?}");
                sorts.insert(ways.remove(0).0);
            }
        }
    }
    assert!(sorts.len() >= 8, "{sorts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_changes_at_once_the_one_that_commits_last_sees_the_others() {
    let database = TestDatabase::unlimited().await;
    let mut one = Session::begin(&database).await;
    let mut two = Session::begin(&database).await;
    one.execute("update tidegate.kind set deadline = '2 hours' where name = 'direct'").await;
    two.execute("update tidegate.queue set per_seconds = 5 where name = 'tx'").await;
    one.execute("set constraints all immediate").await;
    let late = two.start("commit");
    late.until_blocked_by(&database, &one).await;
    one.commit().await;
    let _ = late.finish().await;
    sound(&database).await;

    let seed = rand::rng().random::<u64>();
    println!("seed {seed}");
    let mut tasks = Vec::new();
    for actor in 0..6 {
        let mut session = Session::open(&database).await;
        let mut random = StdRng::seed_from_u64(seed.wrapping_add(actor));
        tasks.push(tokio::spawn(async move {
            let mut errors = Vec::new();
            for _ in 0..campaign(40, 1_000) {
                let change = match random.random_range(0..5) {
                    0 => "update tidegate.queue set paused = not paused where name = 'tx'",
                    1 => "update tidegate.kind set deadline = deadline + interval '1 second' where name = 'direct'",
                    2 => "update tidegate.setting set max_seconds = max_seconds + 1",
                    3 => "update tidegate.gate set high_water = high_water + 1 where queue = 'tx'",
                    _ => STATED,
                };
                let end = ["commit", "commit", "rollback"].choose(&mut random).unwrap();
                session.execute("begin").await;
                errors.extend(session.attempt(change).await.err());
                errors.extend(session.attempt(end).await.err());
            }
            errors
        }));
    }
    for task in tasks {
        assert_eq!(task.await.unwrap(), []);
    }
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_terms_outlive_a_table_that_is_emptied_at_once() {
    for table in ["kind", "queue", "gate", "policy", "setting"] {
        let database = TestDatabase::unlimited().await;
        let mut session = Session::open(&database).await;
        session.execute(&format!("truncate tidegate.{table} cascade")).await;
        assert_eq!(session.texts(TERMS).await, [""; 0], "{table}");
    }
}
