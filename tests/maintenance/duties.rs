//! Does maintenance do every duty, alone, together and twice?

use crate::support::{
    TestDatabase,
    at_rest::violations,
    race::Session,
    sql::{column, run, value},
};

const NO_ROWS: [&str; 0] = [];

/// Something for every duty to do.
async fn prepare_duties(database: &TestDatabase) {
    database.request_in("direct", "receipt_received").await;
    let session = &mut database.session().await;
    run(
        session,
        "update tidegate.awaiting_response set due_at = clock_timestamp() - interval '1 s';
         select tidegate.submit_batch('public_decrypt', '{1,2,3}');
         select tidegate.submit_batch('direct', '{1,2,3}');
         update tidegate.request set readiness_deadline_at = clock_timestamp() - interval '1 s'
         where id = (select id from tidegate.request where req_status = 'queued' limit 1);
         update tidegate.request set deadline_at = clock_timestamp() - interval '1 s'
         where id = (select id from tidegate.request where req_status = 'processing' limit 1)",
    )
    .await;
    run(
        session,
        "insert into tidegate.worker (name, stages, queues, last_seen_at) values ('gone', '{}', '{}', now() - interval '2 days');
         select setval('tidegate.watermark_tx', 1000000)",
    )
    .await;
    let early = database.request_in_no_queue("input_proof").await;
    run(
        session,
        &format!("insert into tidegate.response_inbox (request_id, accept, response) values ('{early}', true, '{{}}')"),
    )
    .await;
}

/// All that `prepare_duties` has left to do is done.
async fn duties_are_done(database: &TestDatabase) {
    let session = &mut database.session().await;
    let ended = "select cause from tidegate.request where finished_at is not null order by cause";
    assert_eq!(
        column(session, ended).await,
        ["deadline_exceeded", "readiness_timed_out", "response_timed_out", "verdict_accepted"]
    );
    for (what, left) in [
        ("tidegate.worker where name = 'gone'", "0"),
        ("tidegate.request_count_delta", "0"),
        ("tidegate.response_inbox", "0"),
        ("tidegate.maintenance where ran_at < now() - interval '1 minute' or took_ms is null", "0"),
    ] {
        assert_eq!(value(session, &format!("select count(*) from {what}")).await, left, "{what}");
    }
    assert_eq!(database.claim_tx(100).await.len(), 2, "the hidden messages came to light");
    assert_eq!(violations(session).await, NO_ROWS);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_call_of_maintain_runs_every_duty() {
    let database = TestDatabase::unlimited().await;
    prepare_duties(&database).await;
    database.execute("call tidegate.maintain()").await;
    duties_are_done(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn maintain_from_several_sessions_at_once_does_everything_once() {
    let database = TestDatabase::unlimited().await;
    prepare_duties(&database).await;
    let mut sessions = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let mut session = database.session().await;
        sessions.spawn(async move {
            for _ in 0..5 {
                run(&mut session, "call tidegate.maintain()").await;
            }
        });
    }
    sessions.join_all().await;
    // What another session folded while this one moved something waits for the next time.
    database.execute("update tidegate.maintenance set ran_at = '-infinity'").await;
    database.execute("call tidegate.maintain()").await;
    duties_are_done(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duty_waits_for_its_period_unless_the_clock_stepped_back() {
    let database = TestDatabase::unlimited().await;
    database.execute("call tidegate.maintain()").await;
    let ran = |duty: &str| format!("select ran_at from tidegate.maintenance where duty = '{duty}'");
    let first = database.value(&ran("make_partitions")).await;
    database.execute("call tidegate.maintain()").await;
    assert_eq!(database.value(&ran("make_partitions")).await, first);

    database.execute("update tidegate.maintenance set ran_at = clock_timestamp() + interval '1 hour'").await;
    database.execute("call tidegate.maintain()").await;
    assert_eq!(database.number("select count(*) from tidegate.maintenance where ran_at > clock_timestamp()").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn early_responses_that_must_still_wait_do_not_keep_the_sweep_from_the_others() {
    let database = TestDatabase::unlimited().await;
    database.execute("select tidegate.submit_batch('direct', '{1,2,3,4,5}')").await;
    database.execute("select tidegate.respond('{}', id => id) from tidegate.request").await;
    let ready = database.request_in_no_queue("direct").await;
    database
        .execute(&format!("insert into tidegate.response_inbox (request_id, response) values ('{ready}', '{{}}')"))
        .await;

    // Three at a time, and the next three after those: the one that is ready is the sixth.
    assert_eq!(database.number("tidegate.sweep_inbox(3)").await, 0);
    assert_eq!(database.number("tidegate.sweep_inbox(3)").await, 1);
    assert_eq!(
        database.value(&format!("select req_status from tidegate.request where id = '{ready}'")).await,
        "completed"
    );
    assert_eq!(database.number("select count(*) from tidegate.response_inbox where not late").await, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_whose_table_is_gone_keeps_no_duty_from_running() {
    let database = TestDatabase::new().await;
    database
        .execute(
            "insert into tidegate.queue (name, stage) values ('extra', 'tx');
             select pgmq.drop_queue('extra')",
        )
        .await;

    database.execute("call tidegate.maintain()").await;

    assert_eq!(database.number("select count(*) from tidegate.maintenance where ran_at = '-infinity'").await, 0);
    assert_eq!(database.number("select count(*) from tidegate.queue_overview").await, 3);
    database.execute("delete from tidegate.queue where name = 'extra'").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duty_that_fails_keeps_no_other_from_running_and_has_not_run() {
    let database = TestDatabase::new().await;
    // Every duty before `fold_counts` works; this one does not.
    database.execute("call tidegate.maintain()").await;
    database.execute("update tidegate.maintenance set ran_at = now() - interval '1 day'").await;
    database.execute("alter table tidegate.request_count rename to request_count_away").await;

    database.execute("call tidegate.maintain()").await;

    let failing = "select count(*) from tidegate.maintenance_overview
                   where error like '%request_count%' and failing_since > now() - interval '1 minute' and overdue > '23 h'";
    assert_eq!(database.number(failing).await, 1);
    assert_eq!(
        database
            .number("select count(*) from tidegate.maintenance_overview where overdue > '1 h' or error is not null")
            .await,
        1,
        "only that one"
    );
    database
        .execute("update tidegate.maintenance set failing_since = failing_since - interval '2 minutes' where error is not null")
        .await;
    let found = "select samples::text from tidegate.invariant_violation where name = 'duty_fails'";
    assert!(database.text(found).await.unwrap().contains("fold_counts: "));

    database.execute("alter table tidegate.request_count_away rename to request_count").await;
    database.execute("call tidegate.maintain()").await;
    assert_eq!(
        database
            .number("select count(*) from tidegate.maintenance where error is not null or failing_since is not null")
            .await,
        0
    );
    assert_eq!(database.violations().await, NO_ROWS);
}

/// A second session that had nothing to do beside the first one would record the duty as done, and it would rest for its period.
#[tokio::test(flavor = "multi_thread")]
async fn a_duty_in_whose_backlog_one_session_is_at_work_is_not_recorded_as_done_by_another() {
    let database = TestDatabase::unlimited().await;
    database
        .past_triggers(
            "insert into tidegate.request (id, kind, flow, req_status, previous_status, transition_no, cause, submitted_at,
               deadline_at, processing_at, finished_at, payload, response)
             select tidegate_internal.uuid_v7(now() - interval '90 days' + n * interval '1 s'), 'direct', 'direct', 'completed',
               'tx_in_flight', 3, 'receipt', now() - interval '90 days', now() - interval '89 days',
               now() - interval '90 days', now() - interval '90 days', '{}', '{}'
             from generate_series(1, 1100) as n",
        )
        .await;
    // The second batch waits: the first one finds all of them.
    database
        .execute(
            "update tidegate.kind set retention = '30 days' where name = 'direct';
             create function public.wait_once() returns trigger language plpgsql as $$
             begin
               if (select count(*) from tidegate.request) < 1100 then
                 perform pg_advisory_xact_lock_shared(4711);
               end if;
               return null;
             end $$;
             create trigger wait_once before delete on tidegate.request
               for each statement execute function public.wait_once()",
        )
        .await;
    // However long the first batch takes, there is time for the second.
    database.stop_clock().await;
    database.execute("update tidegate.maintenance set ran_at = tidegate.clock() where duty <> 'expire_requests'").await;
    let mut holder = Session::begin(&database).await;
    holder.execute("select pg_advisory_xact_lock(4711)").await;
    let first = Session::open(&database).await.start("call tidegate.maintain()");
    first.until_blocked_by(&database, &holder).await;

    database.execute("call tidegate.maintain()").await;
    let ran = "select count(*) from tidegate.maintenance where duty = 'expire_requests' and isfinite(ran_at)";
    assert_eq!(database.number(ran).await, 0);

    holder.commit().await;
    first.finish().await;
    assert_eq!(database.number("select count(*) from tidegate.request").await, 0);
    assert_eq!(database.number(ran).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_goes_on_while_a_duty_has_a_backlog_and_ends_after_five_seconds() {
    let database = TestDatabase::unlimited().await;
    database.stop_clock().await;
    database
        .execute(
            "create table public.batch (seconds float8);
             create function public.take_time() returns trigger language plpgsql as $$
             begin
               update public.test_clock set at = at + (select seconds from public.batch) * interval '1 second';
               return null;
             end $$;
             create trigger take_time after delete on tidegate.dedup
               for each statement execute function public.take_time()",
        )
        .await;
    let left_after_batches_of = async |seconds: &str| {
        database
            .past_triggers(&format!(
                "insert into tidegate.dedup (scope, key, fingerprint, request_id, first_seen, dedup_window, expires_at)
                 select 'kind', n::text, '', gen_random_uuid(), c.at - interval '2 days', interval '1 day',
                   c.at - interval '1 day'
                 from generate_series(1, 4500) as n
                 cross join public.test_clock as c
                 on conflict do nothing;
                 delete from public.batch;
                 insert into public.batch values ({seconds})"
            ))
            .await;
        database.execute("update tidegate.maintenance set ran_at = '-infinity'").await;
        database.execute("call tidegate.maintain()").await;
        database.number("select count(*) from tidegate.dedup").await
    };
    // Two batches of 0.3 s a round; then one of 3 s, in two rounds.
    assert_eq!(left_after_batches_of("0.3").await, 0);
    assert_eq!(left_after_batches_of("3").await, 2500);
}
