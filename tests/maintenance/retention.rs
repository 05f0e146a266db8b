//! Does retention delete what is old enough, the oldest first, with all that belongs to it, and nothing else?

mod history;

use uuid::Uuid;

use crate::support::{
    TestDatabase, eventually,
    race::{NOTHING, Session, sound},
};

const VIOLATIONS: &str = "select name, samples from tidegate.invariant_violation";

/// With a retention of ten days for `direct`, and none for the others.
async fn stage() -> (TestDatabase, Session) {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "update tidegate.kind set retention = null;
             update tidegate.kind set retention = '10 days' where name = 'direct';
             select tidegate.make_partitions()",
        )
        .await;
    let session = Session::open(&database).await;
    (database, session)
}

/// A partition of the history, of a day so many days ago.
async fn partition(session: &mut Session, days: i32) -> String {
    session
        .execute(&format!(
            "do $$
             declare v_day timestamptz := date_trunc('day', now(), 'UTC') - interval '{days} days';
             begin
               execute format(
                 'create table if not exists tidegate.stored_event_%s partition of tidegate.stored_event
                  for values from (%L) to (%L)', to_char(v_day at time zone 'UTC', 'YYYY_MM_DD'),
                 tidegate.uuid_v7_floor(v_day), tidegate.uuid_v7_floor(v_day + interval '1 day'));
             end $$"
        ))
        .await;
    session
        .text(&format!(
            "select 'stored_event_' || to_char(now() at time zone 'UTC' - interval '{days} days', 'YYYY_MM_DD')"
        ))
        .await
}

/// A request submitted so many days ago, at noon, in a status that it came to so many days ago.
async fn aged(database: &TestDatabase, kind: &str, status: &str, submitted: i32, ended: i32) -> Uuid {
    let id = database
        .value(&format!(
            "select tidegate_internal.uuid_v7(date_trunc('day', now(), 'UTC') - interval '{submitted} days' + interval '12 hours')"
        ))
        .await;
    database
        .past_triggers(&format!(
            "insert into tidegate.request (id, kind, flow, req_status, previous_status, transition_no, cause, submitted_at,
               deadline_at, processing_at, finished_at, payload, response)
             select '{id}', k.name, k.flow, '{status}',
               case when '{status}' <> 'processing' then 'processing'::tidegate.request_status end,
               case when '{status}' = 'processing' then 1 else 2 end,
               case when '{status}' = 'processing' then 'submitted' else 'internal_error' end,
               now() - interval '{submitted} days', now() + interval '1 hour', now() - interval '{submitted} days',
               case when '{status}' <> 'processing' then now() - interval '{ended} days' end, '{{}}', '{{}}'
             from tidegate.kind as k where k.name = '{kind}';
             insert into tidegate.stored_event (request_id, transition_no, from_status, to_status, at, attempt, cause)
             select id, 1, null::tidegate.request_status, 'processing'::tidegate.request_status, submitted_at, 0, 'submitted'
             from tidegate.request where id = '{id}'
             union all
             select id, 2, 'processing', req_status, finished_at, 0, cause
             from tidegate.request where id = '{id}' and finished_at is not null;
             insert into tidegate.request_count_delta (kind, req_status, delta) values ('{kind}', '{status}', 1)"
        ))
        .await;
    id.parse().unwrap()
}

async fn kept(session: &mut Session) -> Vec<Uuid> {
    let ids = session.texts("select id from tidegate.request order by id").await;
    ids.iter().map(|id| id.parse().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_oldest_go_first_in_bounded_batches_and_what_is_young_or_live_stays() {
    let (database, mut session) = stage().await;
    let mut old = Vec::new();
    for days in [40, 30, 20, 12, 11] {
        old.push(aged(&database, "direct", "failure", days, days).await);
    }
    // Submitted long ago and ended lately; of a kind that keeps everything; not yet old.
    let mut stays = vec![
        aged(&database, "direct", "failure", 35, 2).await,
        aged(&database, "input_proof", "failure", 50, 50).await,
        aged(&database, "direct", "failure", 9, 9).await,
    ];
    let live = database.submit("direct").await;
    stays.push(live.0);
    stays.sort();

    let step = "select expired, more from tidegate.expire_requests(2)";
    assert_eq!(session.text(step).await, "2 t");
    let mut expected = [&old[2..], &stays[..]].concat();
    expected.sort();
    assert_eq!(kept(&mut session).await, expected);
    assert_eq!(session.text(step).await, "2 t");
    assert_eq!(session.text(step).await, "1 f");
    assert_eq!(session.text(step).await, "0 f");
    assert_eq!(kept(&mut session).await, stays);
    assert_eq!(session.texts(VIOLATIONS).await, NOTHING);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_belongs_to_a_request_goes_with_it_and_nothing_of_others() {
    let (database, mut session) = stage().await;
    let young = aged(&database, "direct", "failure", 3, 3).await;
    let old = aged(&database, "direct", "failure", 30, 30).await;
    for id in [young, old] {
        session
            .execute(&format!(
                "insert into tidegate.response_part (request_id, part) values ('{id}', 'a');
                 insert into tidegate.request_reference (reference, request_id) values ('ref-{id}', '{id}');
                 insert into tidegate.response_inbox (request_id, late) values ('{id}', true);
                 insert into tidegate.webhook_delivery (request_id, id, url, host_port, state, finished_at)
                 values ('{id}', '{id}', 'http://a', 'a:80', 'delivered', now());
                 insert into tidegate.dedup (scope, key, fingerprint, request_id, first_seen, dedup_window, expires_at)
                 values ('direct:', '{id}', '', '{id}', now() - interval '30 days', '1 day', now() - interval '29 days')"
            ))
            .await;
    }

    database.execute("call tidegate.maintain()").await;

    for (table, column, left) in [
        ("request", "id", 1),
        ("response_part", "request_id", 1),
        ("request_reference", "request_id", 1),
        ("response_inbox", "request_id", 1),
        ("webhook_delivery", "request_id", 1),
        ("stored_event", "request_id", 2),
        ("dedup", "request_id", 0),
    ] {
        let sql = format!("select count(*) from tidegate.{table} where {column} = ");
        assert_eq!(database.number(&format!("{sql} '{young}'")).await, left, "{table}");
        assert_eq!(database.number(&format!("{sql} '{old}'")).await, 0, "{table}");
    }
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_key_from_before_a_shorter_window_stands_for_stays_to_the_end_of_that_window() {
    let (database, mut session) = stage().await;
    let change = async |window: &str, retention: &str| {
        database
            .execute(&format!(
                "begin;
                 update tidegate.policy set dedup_window = '{window}' where kind = 'direct' and stage = 'tx';
                 update tidegate.kind set retention = '{retention}' where name = 'direct';
                 commit"
            ))
            .await;
    };
    change("9 days", "10 days").await;
    let id = aged(&database, "direct", "completed", 8, 8).await;
    session
        .execute(&format!(
            "insert into tidegate.dedup (scope, key, fingerprint, request_id, first_seen, expires_at, dedup_window)
             select 'direct:', 'key', tidegate_internal.fingerprint('{{}}', null), id, submitted_at, submitted_at + interval '9 days', '9 days'
             from tidegate.request where id = '{id}'"
        ))
        .await;
    change("1 day", "2 days").await;

    let step = "select expired from tidegate.expire_requests()";
    assert_eq!(session.text(step).await, "0");
    assert_eq!(
        session.text("select id || ' ' || outcome from tidegate.submit('direct', '{}', 'key')").await,
        format!("{id} replayed")
    );

    // Nine days after the change none of those keys is left.
    session.execute("update tidegate.config_change set at = at - interval '9 days'; delete from tidegate.dedup").await;
    assert_eq!(session.text(step).await, "1");
    assert_eq!(session.texts(VIOLATIONS).await, NOTHING);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_that_have_to_stay_do_not_keep_a_round_from_those_behind_them() {
    let (database, mut session) = stage().await;
    for _ in 0..25 {
        aged(&database, "direct", "processing", 40, 40).await;
    }
    aged(&database, "direct", "failure", 20, 20).await;

    // A call of one looks at ten.
    let step = "select expired, more from tidegate.expire_requests(1)";
    assert_eq!(session.text(step).await, "0 t");
    assert_eq!(session.text(step).await, "0 t");
    assert_eq!(session.text(step).await, "1 t");
    assert_eq!(session.text(step).await, "0 f");
    assert_eq!(kept(&mut session).await.len(), 25);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_retention_nothing_is_deleted() {
    let database = TestDatabase::uninitialised().await;
    let mut session = Session::open(&database).await;
    let partition = partition(&mut session, 400).await;
    aged(&database, "direct", "failure", 500, 500).await;
    session
        .execute(
            "insert into tidegate.gate_event (gate, epoch, state, depth, cause, at)
           select 'tx', n, 'accepting', 0, 'test', '2020-01-01' from generate_series(1, 3) as n",
        )
        .await;

    database.execute("call tidegate.maintain()").await;

    assert_eq!(kept(&mut session).await.len(), 1);
    assert_eq!(session.text("select count(*) from tidegate.gate_event").await, "3");
    assert_eq!(session.text(&format!("select to_regclass('tidegate.{partition}') is not null")).await, "t");
    // A starter set brings one.
    database.store.initialise(None, None).await.unwrap();
    database.execute("update tidegate.maintenance set ran_at = '-infinity'").await;
    database.execute("call tidegate.maintain()").await;
    assert!(kept(&mut session).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn two_at_once_and_a_caller_in_the_way_delete_each_request_once() {
    let (database, mut session) = stage().await;
    let mut ids = Vec::new();
    for _ in 0..12 {
        ids.push(aged(&database, "direct", "failure", 20, 20).await);
    }
    let mut caller = Session::begin(&database).await;
    caller.execute(&format!("select from tidegate.request where id = '{}' for update", ids[3])).await;

    let mut tasks = Vec::new();
    for _ in 0..3 {
        let mut session = Session::open(&database).await;
        tasks.push(tokio::spawn(async move {
            let mut deleted = 0;
            // Who finds another one at it leaves it alone, so how many calls it takes is chance.
            while session.text("select count(*) from tidegate.request").await != "1" {
                deleted +=
                    session.text("select expired from tidegate.expire_requests(2)").await.parse::<i64>().unwrap();
            }
            deleted
        }));
    }
    let mut deleted = 0;
    for task in tasks {
        deleted += task.await.unwrap();
    }
    assert_eq!(deleted, 11);
    caller.rollback().await;
    eventually("the one in the way goes with the next round", || async {
        database.execute("select tidegate.expire_requests(2)").await;
        database.number("select count(*) from tidegate.request").await == 0
    })
    .await;
    assert_eq!(session.texts(VIOLATIONS).await, NOTHING);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_of_one_kind_reads_no_requests_of_others() {
    let database = TestDatabase::large().await;
    database.stop_clock().await;
    let mut session = Session::open(&database).await;
    // All requests are older than this retention.
    session
        .execute(
            "update public.test_clock set at = at + interval '1 year';
             update tidegate.kind set retention = case name when 'input_proof' then interval '30 days' end;
             set plan_cache_mode = force_generic_plan",
        )
        .await;
    for statement in
        ["select * from tidegate.expire_requests()", "select * from tidegate_internal.contract_history('input_proof')"]
    {
        let read = session.reads("request", statement).await;
        assert_eq!(read.scans, 0, "{statement} scans the table");
        assert!(read.rows_by_index < 100, "{statement}: {read:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_application_refers_to_stays_and_keeps_no_other() {
    let (database, mut session) = stage().await;
    let mut ids = Vec::new();
    for day in 20..40 {
        ids.push(aged(&database, "direct", "failure", day, day).await);
    }
    session
        .execute(&format!(
            "create table public.orders (request_id uuid references tidegate.request);
             insert into public.orders values ('{}'), ('{}')",
            ids[3], ids[11]
        ))
        .await;
    let retain = async || {
        for _ in 0..3 {
            let due = "update tidegate.maintenance set ran_at = '-infinity' where duty = 'expire_requests'";
            database.execute(due).await;
            database.execute("call tidegate.maintain()").await;
        }
    };

    retain().await;

    // Their ids begin with the time.
    assert_eq!(kept(&mut session).await, [ids[11], ids[3]]);
    let note = "select passed_over, passed_over_request, passed_over_error, overdue = '0', error
                from tidegate.maintenance_overview where duty = 'expire_requests'";
    assert_eq!(
        session.text(note).await,
        format!(
            "2 {} update or delete on table \"request\" violates foreign key constraint \"orders_request_id_fkey\" on table \"orders\" t ",
            ids[11]
        )
    );
    let found = session.texts(VIOLATIONS).await.join("\n");
    assert!(found.contains("request_passed_over"), "{found}");

    session.execute("delete from public.orders; update tidegate.passed_over set retry_at = now()").await;
    retain().await;
    assert!(kept(&mut session).await.is_empty());
    assert_eq!(session.texts("select from tidegate.passed_over").await, NOTHING);
}
