//! Do the functions that read and write queues' tables know every queue, and do the plans that they keep stay good?

use crate::support::{
    TestDatabase,
    race::{Session, submit_many},
    until_blocked,
};

const NEW: &str = "insert into tidegate.queue (name, stage) values ('later', 'tx');
     insert into tidegate.kind (name, flow, tx_queue, processing_ms, tx_confirmation_ms)
     values ('later', 'direct', 'later', 1, 1)";

const OUTDATED: &str = "select f.signature from tidegate_internal.queue_functions() as f where f.body <> f.wanted";

const NONE: [&str; 0] = [];

/// A claim and a settle of each request that waits in a queue; how many were settled.
fn served(queue: &str) -> String {
    format!(
        "select count(s.id)
         from (select array_agg(c.lease) as leases from tidegate.claim_tx('{queue}', 'w', 500, '1 minute') as c) as c
         cross join lateral tidegate_internal.settle_receipt(c.leases) as s"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_served_by_sessions_that_were_there_before_it() {
    let database = TestDatabase::new().await;
    let mut earlier = Session::open(&database).await;
    earlier.texts("select * from tidegate.submit('direct', '{}')").await;
    assert_eq!(earlier.text(&served("tx")).await, "1");

    // Two at once: the second waits for the first, and knows both.
    let mut first = Session::begin(&database).await;
    first.execute(NEW).await;
    let mut second = Session::begin(&database).await;
    let other = NEW.replace("'later'", "'other'");
    let ((), ()) = tokio::join!(second.execute(&other), async {
        until_blocked(&database, 1).await;
        first.commit().await;
    });
    second.commit().await;

    for queue in ["later", "other", "tx"] {
        let kind = if queue == "tx" { "direct" } else { queue };
        earlier.texts(&format!("select * from tidegate.submit('{kind}', '{{}}')")).await;
        assert_eq!(earlier.text(&served(queue)).await, "1", "{queue}");
    }

    database
        .execute("update tidegate.kind set tx_queue = 'other' where name = 'later'; delete from tidegate.queue where name = 'later'")
        .await;
    assert_eq!(earlier.texts(OUTDATED).await, NONE);
    let (code, said) = earlier.attempt(&served("later")).await.unwrap_err();
    assert_eq!(code, "TG005", "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_is_taken_back_leaves_no_branch() {
    let database = TestDatabase::new().await;
    let mut session = Session::begin(&database).await;
    session.execute(NEW).await;
    session.rollback().await;
    assert_eq!(session.texts(OUTDATED).await, NONE);
    let branches = session.text("select count(*) from pg_proc where prosrc like '%q_later%'").await;
    assert_eq!(branches, "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn recover_builds_the_branches_again() {
    let database = TestDatabase::new().await;
    let mut session = Session::open(&database).await;
    session
        .execute(
            "do $$ begin
               execute replace(
                 pg_get_functiondef('tidegate.submit'::regproc), '-- queue tx', '-- queue gone'
               );
               execute replace(
                 pg_get_functiondef('tidegate.submit'::regproc), 'when ''tx''', 'when ''gone'''
               );
             end $$",
        )
        .await;
    let (code, said) = session.attempt("select * from tidegate.submit('direct', '{}')").await.unwrap_err();
    assert_eq!(code, "40001");
    assert_eq!(said, "queue \"tx\" is being made");

    let repaired = session.texts("select * from tidegate.recover_storage() as r order by r").await;
    assert_eq!(repaired, ["readiness", "tx"]);
    assert_eq!(session.texts(OUTDATED).await, NONE);
    assert_eq!(session.text("select outcome from tidegate.submit('direct', '{}')").await, "accepted");
}

/// Calls functions while their tables are empty, and again when 20,000 requests of the kind wait in the queue.
async fn plans_are_kept(queue: &str, kind: &str, calls: &[&str]) {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    let messages = format!("pgmq.q_{queue}");
    for table in [&messages, "tidegate.request", "tidegate.claim", "tidegate.stored_event"] {
        session.execute(&format!("vacuum analyze {table}")).await;
    }
    let submit = format!("select * from tidegate.submit('{kind}', '{{}}')");
    let mut all = vec![submit.clone(), format!("select tidegate.claim_wait_ms('{queue}')")];
    all.extend(calls.iter().map(|call| {
        format!(
            "select count(*)
             from (select array_agg(c.lease) as leases from tidegate.claim_{queue}('{queue}', 'w', 500, '1 minute') as c) as c
             cross join lateral {call} as s"
        )
    }));
    for statement in &all {
        session.texts(&submit).await;
        session.texts(statement).await;
    }

    // Another session submits them, so that this one keeps its plans.
    submit_many(&database, kind, 10_000).await;
    submit_many(&database, kind, 10_000).await;
    for statement in &all {
        let read = session.reads(&format!("q_{queue}|request|stored_event_[0-9_]+"), statement).await;
        assert_eq!(read.scans, 0, "{statement} scans a table");
        assert!(read.rows_by_index < 12_000, "{statement}: {read:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn plans_kept_from_an_empty_queue_serve_a_deep_one() {
    let errors = "array_fill('{\"code\": \"503\"}'::jsonb, array[cardinality(c.leases)])";
    let refs = "(select array_agg(gen_random_uuid()::text) from unnest(c.leases))";
    plans_are_kept(
        "tx",
        "direct",
        &[
            "tidegate_internal.settle_receipt(c.leases)",
            &format!("tidegate_internal.settle_receipt(c.leases, {refs})"),
            "tidegate.extend(c.leases, '1 minute')",
            "tidegate.still_held(c.leases)",
            "tidegate.hold_leases(c.leases)",
            "tidegate_internal.settle_released(c.leases)",
            &format!("tidegate_internal.settle_retry(c.leases, {errors})"),
            &format!("tidegate_internal.settle_rejected(c.leases, {errors})"),
        ],
    )
    .await;
    plans_are_kept(
        "readiness",
        "public_decrypt",
        &[
            "tidegate_internal.settle_passed(c.leases)",
            "tidegate.extend(c.leases, '1 minute')",
            "tidegate_internal.settle_released(c.leases)",
            "tidegate_internal.settle_snooze(c.leases)",
            &format!("tidegate_internal.settle_failed(c.leases, {errors})"),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_whose_plans_were_made_before_any_history_reads_it_by_an_index() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    session.execute("vacuum analyze tidegate.stored_event").await;
    let recover = "select reset from tidegate.recover(reset_all => true, force => true)";
    for requests in [1, 100] {
        session
            .texts(&format!(
                "select count(*) from tidegate.submit_batch('direct', array_fill('{{}}'::jsonb, array[{requests}]))"
            ))
            .await;
        session.texts("select count(*) from tidegate.claim_tx('tx', 'w', 500, '1 minute')").await;
        let read = session.reads("stored_event_[0-9_]+", recover).await;
        assert!(read.index_scans >= requests, "{read:?}");
        assert_eq!(read.scans, 0, "{read:?}");
    }
}
