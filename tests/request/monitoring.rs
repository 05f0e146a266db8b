//! Do the views for monitoring show what happens, and stay cheap with any number of requests?

use crate::support::{
    TestDatabase,
    race::{Session, receipt},
};

/// The stuck requests, by kind and status, with their reasons.
const STUCK: &str = "select s.kind || ' ' || s.req_status || ' ' || s.reason || ' ' || date_trunc('second', s.late)
                     from tidegate.stuck_request as s order by s.since, s.kind";

const NO_ROWS: [&str; 0] = [];

/// Moves the stopped clock to a time after it was stopped.
async fn move_clock(database: &TestDatabase, began: &str, after: &str) {
    database.execute(&format!("update public.test_clock set at = '{began}'::timestamptz + interval '{after}'")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stuck_request_is_shown_with_the_reason_and_no_other() {
    let database = TestDatabase::unlimited().await;
    database.stop_clock().await;
    let began = database.value("select at from public.test_clock").await;
    receipt(&database, "input_proof", None).await;
    database.submit("direct").await;
    database.execute("select tidegate.claim_tx('tx', 'lost', 1, '30 seconds')").await;
    database.submit("direct").await;
    database.submit("public_decrypt").await;
    assert_eq!(database.column(STUCK).await, NO_ROWS);

    // The lease of 30 seconds has run out ten seconds ago, and no claim has reaped it.
    for (after, stuck) in
        [("40 seconds", &NO_ROWS[..]), ("41 seconds", &["direct tx_in_flight lease_ran_out 00:00:11"])]
    {
        move_clock(&database, &began, after).await;
        assert_eq!(database.column(STUCK).await, stuck, "{after}");
    }
    // A minute and twice their ETAs, of three and five seconds.
    move_clock(&database, &began, "72 seconds").await;
    database.submit("direct").await;
    assert_eq!(
        database.column(STUCK).await,
        [
            "direct tx_in_flight lease_ran_out 00:00:42",
            "direct processing waits_too_long 00:00:06",
            "public_decrypt queued waits_too_long 00:00:02",
        ]
    );
    let shown = "select r.id = s.id and s.queue = 'tx' and s.worker is null
                 from tidegate.stuck_request as s
                 join tidegate.request as r on r.req_status = s.req_status and r.submitted_at = '{began}'
                 where s.reason = 'waits_too_long' and s.kind = 'direct'";
    assert_eq!(database.value(&shown.replace("{began}", &began)).await, "t");

    move_clock(&database, &began, "61 minutes").await;
    let stuck = database.column(STUCK).await;
    for reason in [
        "direct tx_in_flight deadline_passed 00:01:00",
        "direct processing deadline_passed 00:01:00",
        "public_decrypt queued deadline_passed 00:46:00",
        "public_decrypt queued deadline_passed 00:01:00",
        "input_proof receipt_received response_overdue 00:31:00",
    ] {
        assert!(stuck.iter().any(|row| row == reason), "{reason}: {stuck:#?}");
    }

    // A claim reaps the lease, and maintenance ends what is overdue. A message that is left of a request is a stray.
    database.execute("create table public.left_over as select * from pgmq.q_tx").await;
    database.claim_tx(10).await;
    move_clock(&database, &began, "62 minutes").await;
    database.execute("call tidegate.maintain()").await;
    database
        .execute("insert into pgmq.q_tx overriding system value select * from public.left_over on conflict do nothing")
        .await;
    assert_eq!(database.column(STUCK).await, NO_ROWS);
}

#[tokio::test(flavor = "multi_thread")]
async fn transitions_are_shown_by_minute_for_an_hour() {
    let database = TestDatabase::unlimited().await;
    database.stop_clock().await;
    database.execute("update public.test_clock set at = date_trunc('minute', at)").await;
    let began = database.value("select at from public.test_clock").await;
    let rates = format!(
        "select date_trunc('second', minute - '{began}') || ' ' || kind || ' ' || req_status || ' ' || transitions || ' ' || per_minute_5m
         from tidegate.transition_rate"
    );
    for _ in 0..3 {
        database.submit("direct").await;
    }
    database.claim_tx(2).await;
    database.execute("select tidegate.fold_counts()").await;
    let first = ["00:00:00 direct processing 3 0.6", "00:00:00 direct tx_in_flight 2 0.4"];
    assert_eq!(database.column(&rates).await, first);

    move_clock(&database, &began, "4 minutes 59 seconds").await;
    database.submit("direct").await;
    database.submit("public_decrypt").await;
    database.execute("select tidegate.fold_counts()").await;
    database.submit("direct").await;
    database.execute("select tidegate.fold_counts()").await;
    let later = ["00:04:00 direct processing 2 1.0", "00:04:00 public_decrypt queued 1 0.2"];
    assert_eq!(database.column(&rates).await, [&later[..], &first].concat());

    move_clock(&database, &began, "61 minutes").await;
    database.submit("direct").await;
    database.execute("select tidegate.fold_counts()").await;
    assert_eq!(database.column(&rates).await, [&["01:01:00 direct processing 1 0.2"], &later[..]].concat());
    move_clock(&database, &began, "24 hours 30 minutes").await;
    database.execute("select tidegate.record_minutes()").await;
    assert_eq!(database.number("select count(*) from tidegate.transition_minute").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_of_ends_calls_and_depths_is_kept_by_the_minute() {
    let database = TestDatabase::unlimited().await;
    database.stop_clock().await;
    database.execute("update public.test_clock set at = date_trunc('minute', at)").await;
    let began = database.value("select at from public.test_clock").await;
    let began = began.as_str();
    move_clock(&database, began, "10 seconds").await;
    for _ in 0..4 {
        database.submit("direct").await;
    }
    database.execute("select tidegate.record_minutes()").await;
    database.answer_all().await;
    database.submit("direct").await;
    database.request_in("direct", "failure").await;
    // Reported late, and not folded yet: in the minute all the same.
    let calls = "insert into tidegate.call_sample (
            kind, stage, at, requests, calls, failures, timeouts, retries, slow, hedges, latency_ms
        ) values ('direct', 'tx', tidegate.clock(), 1, 3, 2, 1, 2, 0, 0, '{10,20,900}')";
    database.execute(calls).await;
    database.execute("select tidegate.fold_counts()").await;

    let kind = format!(
        "select date_trunc('second', minute - '{began}') || concat_ws(' ', '', completed, failed, timed_out, checks, sends, failed_sends,
           retries, coalesce(p50_ms, -1), coalesce(p95_ms, -1), coalesce(p99_ms, -1))
         from tidegate.kind_history where kind = 'direct'"
    );
    let queue = format!(
        "select date_trunc('second', minute - '{began}') || concat_ws(' ', '', depth, drained)
         from tidegate.queue_history where queue = 'tx'"
    );
    assert_eq!(database.column(&kind).await, ["00:00:00 4 1 0 0 0 0 0 -1 -1 -1"]);
    assert_eq!(database.column(&queue).await, ["00:00:00 4 0"]);

    move_clock(&database, began, "65 seconds").await;
    database.execute("select tidegate.record_minutes()").await;
    let sends = "select sum(calls) from tidegate.call_sample where kind = 'direct' and stage = 'tx'";
    let sends = database.number(sends).await;
    let noted = database.column(&kind).await;
    assert_eq!(noted, [format!("00:00:00 4 1 0 0 {sends} 2 2 -1 -1 -1")]);
    assert_eq!(database.column(&queue).await, ["00:01:00 1 0", "00:00:00 4 4"]);
    // Again, when they are folded: the same, with the latencies; and no minute twice.
    for _ in 0..2 {
        database
            .execute("select tidegate.fold_calls(); update tidegate.call_minute set calls = 0; select tidegate.record_minutes()")
            .await;
        let noted = database.column(&kind).await;
        assert!(noted[0].starts_with(&format!("00:00:00 4 1 0 0 {sends} 2 2 ")), "{noted:?}");
        assert!(noted[0].ends_with(" 900 900"), "{noted:?}");
        assert_eq!(database.column(&queue).await, ["00:01:00 1 0", "00:00:00 4 4"]);
    }

    move_clock(&database, began, "24 hours 2 minutes").await;
    database.execute("select tidegate.record_minutes()").await;
    assert_eq!(database.column(&kind).await, Vec::<String>::new());
    assert_eq!(database.column(&queue).await, ["1 day 00:02:00 1 0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn latencies_are_shown_by_stage_for_five_minutes() {
    let database = TestDatabase::new().await;
    database
        .execute(
            "insert into tidegate.call_sample (kind, stage, at, requests, calls, failures, timeouts, retries, slow, hedges, latency_ms)
             select k.kind, k.stage, clock_timestamp() - k.age, 1, 1, 0, 0, 0, 0, 0, array(select generate_series(k.first, k.last))
             from (values
               ('direct', 'tx'::tidegate.stage, interval '0', 1, 50), ('direct', 'tx', '4 minutes', 51, 100),
               ('direct', 'tx', '6 minutes', 10000, 20000), ('public_decrypt', 'readiness', '0', 7, 7)
             ) as k(kind, stage, age, first, last);
             insert into tidegate.answer_sample values ('direct', clock_timestamp() - interval '1 minute', '{1000,3000}');
             insert into tidegate.answer_sample values ('direct', clock_timestamp() - interval '6 minutes', '{9000}')",
        )
        .await;
    let shown = "select row(l.*)::text from tidegate.stage_latency as l";
    let expected =
        ["(direct,response,2,1000,3000,3000)", "(direct,tx,100,50,95,99)", "(public_decrypt,readiness,1,7,7,7)"];
    assert_eq!(database.column(shown).await, expected);
    database.execute("select tidegate.fold_calls()").await;
    let folded = database.column(shown).await;
    assert_eq!((&folded[0], &folded[2]), (&expected[0].to_owned(), &expected[2].to_owned()));
    let same = "select row(s.p50_ms, s.p99_ms) = row(l.p50_ms, l.p99_ms)
                from tidegate.sli as s join tidegate.stage_latency as l on l.kind = s.kind and l.stage = s.stage::text
                where s.kind = 'direct'";
    assert_eq!(database.value(same).await, "t");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_views_read_no_more_than_what_they_show_of_a_large_table() {
    let database = TestDatabase::large().await;
    let mut session = Session::open(&database).await;
    // A node has run all duties, long after the requests ended.
    session.execute("call tidegate.maintain()").await;
    let waiting = session.text("select count(*) from tidegate.first_waiting(1)").await;
    assert_eq!(waiting, "2");

    for _ in 0..8 {
        for (view, rows) in [("stuck_request", 1000), ("transition_rate", 0), ("stage_latency", 0)] {
            let sql = format!("select count(*) from tidegate.{view}");
            let read = session.reads("request|awaiting_response|stored_event.*|q_tx|q_readiness", &sql).await;
            assert_eq!(read.scans, 0, "{view}: {read:?}");
            assert!(read.rows_by_index <= rows, "{view}: {read:?}");
        }
    }
}
