//! Does an everyday function read but the requests that it is about, however many there are, by plans that are kept?

use std::ops::Range;

use crate::support::{
    TestDatabase,
    race::{Session, settle},
    server::templates::add_requests,
};

#[tokio::test(flavor = "multi_thread")]
async fn no_everyday_function_scans_many_requests() {
    reads_few(TestDatabase::large().await).await;
}

/// Where a whole table costs little more than a thousand rows of it, a guess of a thousand rows makes a plan that reads all.
#[tokio::test(flavor = "multi_thread")]
async fn no_everyday_function_scans_some_requests() {
    reads_few(TestDatabase::middling().await).await;
}

/// A worker that is there from the first day has made its plans for an empty database.
#[tokio::test(flavor = "multi_thread")]
async fn no_plan_for_few_requests_scans_many() {
    let database = TestDatabase::unlimited().await;
    let mut operator = database.superuser_session().await;
    add_requests(&mut operator, false).await;
    let mut session = Session::open_as_superuser(&database).await;
    prepare(&mut session).await;
    run(&mut session, 0..8).await;
    add_requests(&mut operator, true).await;
    let wrong = run(&mut session, 8..10).await;
    assert!(wrong.is_empty(), "{wrong:#?}");
}

async fn reads_few(database: TestDatabase) {
    let mut session = Session::open_as_superuser(&database).await;
    prepare(&mut session).await;
    // More than five times each: a plan may turn from custom to generic.
    let wrong = run(&mut session, 0..8).await;
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Records which database this is, too, as programs do at their start: the first time is a change of configuration.
async fn prepare(session: &mut Session) {
    session
        .execute(
            "set track_functions = 'all';
             select count(*) from tidegate.notice_copy();
             select tidegate.kind_add('closed', 'direct');
             select tidegate.gate_force('closed', 'too_many_requests')",
        )
        .await;
}

/// Runs every function in these rounds; the calls that have read too much.
async fn run(session: &mut Session, rounds: Range<usize>) -> Vec<String> {
    let id = session.text("select id from tidegate.submit('direct', '{}')").await;
    let waiting = session.text("select request_id from tidegate.awaiting_response limit 1").await;
    let mut wrong = Vec::new();
    for round in rounds {
        let mut calls = vec![
            format!("select place from tidegate.request_outlook('{id}')"),
            format!("select tidegate.request_position('{id}')"),
            format!("select tidegate.request_retry_after('{id}')"),
            format!("select outcome from tidegate.submit('direct', '{{}}', idempotency_key => 'key-{round}')"),
            format!("select outcome from tidegate.submit('direct', '{{}}', idempotency_key => 'key-{round}')"),
            "select count(*) from tidegate.submit_batch('public_decrypt', array_fill('{}'::jsonb, array[50]))"
                .to_owned(),
            format!("select outcome from tidegate.respond('1', id => '{waiting}')"),
            format!(
                "select count(*) from tidegate.respond_many(array['1'::jsonb, '1'], '{{{waiting},null}}', '{{null,ref-{round}-2}}')"
            ),
            "select outcome from tidegate.submit('closed', '{}')".to_owned(),
            "select count(r.id) from tidegate.list_requests(page => 10) as l left join tidegate.request as r on r.id = l.id".to_owned(),
            "select count(r.id) from tidegate.first_waiting(10) as w join tidegate.request as r on r.id = w.request_id".to_owned(),
            format!("select tidegate.announce('{{{id}}}')"),
            format!("select count(*) from tidegate.moved_since('{{{id}}}', '{{0}}')"),
            format!("select tidegate.ask_settle('{waiting}')"),
            "select tidegate.count_polls('{direct}', '{1}', '{1}', '{1}')".to_owned(),
            "select tidegate.worker_seen('worker', '{tx}', '{tx}')".to_owned(),
            "select count(*) from tidegate.gate_copy()".to_owned(),
            "select count(*) from tidegate.key_changes()".to_owned(),
            "select tidegate.session_key('none')".to_owned(),
            "select tidegate.watch()".to_owned(),
            "select tidegate.wake('tx')".to_owned(),
            format!("select reason from tidegate.explain('{id}')"),
            format!("select reason from tidegate.explain('{waiting}')"),
            "select outcome from tidegate.quote('direct')".to_owned(),
            "select count(*) from tidegate.webhook_claim(10)".to_owned(),
            "select redriven from tidegate.redrive(10, kind => 'direct')".to_owned(),
            "select count(*) from tidegate.submit_batch('closed', array_fill('{}'::jsonb, array[50]))".to_owned(),
            "select cancelled from tidegate.cancel_requests('direct', submitter => 'ann', batch => 10)".to_owned(),
            "select cancelled from tidegate.cancel_requests(queue => 'readiness', batch => 2)".to_owned(),
            format!("select outcome from tidegate.respond('1', reference => 'ref-{round}-1')"),
            "select expired from tidegate.expire_by_deadline()".to_owned(),
            "select expired from tidegate.expire_by_readiness()".to_owned(),
            "select expired from tidegate.expire_responses()".to_owned(),
            "select expired from tidegate.expire_keys()".to_owned(),
            "select tidegate.expire_webhooks()".to_owned(),
            "select expired from tidegate.expire_requests()".to_owned(),
            "select tidegate.expire_events()".to_owned(),
            "select tidegate.fold_counts()".to_owned(),
            "select tidegate.record_minutes()".to_owned(),
            "select tidegate.sweep_inbox()".to_owned(),
            "select tidegate.rescan_queue('tx')".to_owned(),
            "select examined from tidegate.recover(100)".to_owned(),
            "select examined from tidegate.recover_deadlines(100)".to_owned(),
            "select applied from tidegate.recover_responses()".to_owned(),
            "select removed from tidegate.remove_stray_messages('tx')".to_owned(),
            "select count(*) from tidegate.claim_readiness('readiness', 'other', 1, '30 seconds')".to_owned(),
            "select count(*) from tidegate.claim_tx('tx', 'other', 20, '30 seconds')".to_owned(),
        ];
        for batch in [1, 20] {
            let held = session.claim("readiness", batch).await;
            calls.push(match round % 4 {
                0 => settle("settle_passed", &held, ""),
                1 => settle("settle_snooze", &held, ""),
                2 => settle("settle_released", &held, ""),
                _ => settle("settle_failed", &held, "null"),
            });
            let held = session.claim("tx", batch).await;
            let references = format!("(select array_agg('ref-{round}-' || n) from generate_series(1, {batch}) as n)");
            calls.push(match round % 4 {
                0 => settle("settle_receipt", &held, &references),
                1 => settle("settle_retry", &held, "null"),
                2 => settle("settle_rejected", &held, "null"),
                _ => settle("settle_released", &held, ""),
            });
            let cancelled = session.text("select message ->> 'id' from pgmq.q_tx limit 1").await;
            calls.push(format!("select outcome from tidegate.cancel('{cancelled}')"));
            calls.push(format!("select count(*) from tidegate.fail_internal(array['{cancelled}'::uuid, '{waiting}'])"));
        }
        for sql in calls {
            let read = session.reads("request|awaiting_response|dedup|webhook_delivery", &sql).await;
            let recovers = sql.contains("tidegate.recover(") || sql.contains("tidegate.recover_deadlines(");
            let most = match &sql {
                // Reads 10,000 requests at most, if few of them match its filter.
                sql if sql.contains("tidegate.cancel_requests(") || sql.contains("tidegate.redrive(") => 20_100,
                // Reads live requests in the order of their ids, with those that have ended in between.
                _ if recovers => i64::MAX,
                _ => 1500,
            };
            // Maintenance and operators call these; no caller or worker waits for them.
            let may_plan = recovers || sql.contains("tidegate.rescan_queue(");
            if read.scans > 0 || read.rows_by_index > most || !(may_plan || read.sql_functions.is_empty()) {
                wrong.push(format!("round {round}: {sql}: {read:?}"));
            }
        }
    }
    wrong
}
