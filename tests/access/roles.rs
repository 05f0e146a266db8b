//! Can each group role do its own job, and nothing else?

mod keys;

use sqlx::PgConnection;

use crate::support::{
    TestDatabase,
    sql::{Claim, claim, column, leases, refused, run, value},
};

/// Another session that may do what `role` may and no more, as a login that was granted it.
pub(crate) async fn login(database: &TestDatabase, role: &str) -> PgConnection {
    let mut session = database.superuser_session().await;
    // Roles are the whole cluster's: one login for each role serves all tests.
    run(
        &mut session,
        &format!(
            "do $$ begin
               create role tidegate_test_{role} nologin in role tidegate_{role};
             exception when duplicate_object or unique_violation then null;
             end $$;
             set session authorization tidegate_test_{role}; set search_path = public"
        ),
    )
    .await;
    session
}

const PERMISSION_DENIED: &str = "42501";

pub(crate) async fn is_denied(session: &mut PgConnection, sql: &str) {
    let refusal = refused(session, sql).await;
    assert_eq!(refusal.code, PERMISSION_DENIED, "{sql}: {refusal:?}");
}

/// Only the owner writes the engine's tables or reads the queues.
async fn writes_nothing(session: &mut PgConnection) {
    for table in [
        "request",
        "stored_event",
        "awaiting_response",
        "request_reference",
        "response_part",
        "response_inbox",
        "dedup",
        "transition_rule",
        "worker",
        "maintenance",
        "request_count",
        "request_count_delta",
        "queue_drain",
        "schema_state",
        "config_change",
        "gate_event",
        "webhook_delivery",
        "webhook_secret",
    ] {
        is_denied(session, &format!("insert into tidegate.{table} default values")).await;
        is_denied(session, &format!("delete from tidegate.{table}")).await;
        is_denied(session, &format!("truncate tidegate.{table}")).await;
    }
    is_denied(session, "update tidegate.request set worker = 'me'").await;
    is_denied(session, "select * from pgmq.q_tx").await;
    is_denied(session, "select pgmq.purge_queue('tx')").await;
    is_denied(session, "select setval('tidegate.pacing_tx', 1)").await;
    is_denied(session, "create table tidegate.mine ()").await;
    is_denied(session, "set session_replication_role = replica").await;
}

/// No role may call inner functions.
async fn calls_no_inner_function(session: &mut PgConnection) {
    for call in [
        "select tidegate_internal.end_requests('{}', '{queued}', 'failure', '{cancelled}', null)",
        "select tidegate_internal.delete_messages('tx', '{1}', false)",
        "select tidegate_internal.free_messages('tx', '{1}', '{-infinity}')",
        "select tidegate_internal.settle_ended('{}', null, 'queued', null, null)",
        "select * from tidegate_internal.submit_requests('direct', '{1}', null, null, 'enforce', null)",
        "select tidegate_internal.recover_queue(null, null, null, null, null, null, null, null, null, null)",
        "select tidegate_internal.apply_response(gen_random_uuid(), null, null, null)",
    ] {
        is_denied(session, call).await;
    }
}

async fn one(session: &mut PgConnection, function: &str, queue: &str) -> Vec<Claim> {
    let claims = claim(session, function, queue, "w", 1).await;
    assert_eq!(claims.len(), 1);
    claims
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_claims_settles_responds_and_maintains_and_nothing_else() {
    let database = TestDatabase::unlimited().await;
    for kind in ["public_decrypt", "public_decrypt", "public_decrypt", "direct", "direct", "direct", "direct"] {
        database.submit(kind).await;
    }
    let mut worker = login(&database, "worker").await;

    run(&mut worker, "select tidegate.worker_seen('w', '{tx}', '{tx}'); select tidegate.wake('tx'); select tidegate.claim_wait_ms('tx')").await;
    for outcome in ["passed", "snoozed", "rejected"] {
        let claims = leases(&one(&mut worker, "claim_readiness", "readiness").await);
        assert_eq!(column(&mut worker, &format!("select * from tidegate.extend({claims}, '30 s')")).await.len(), 1);
        let settle = format!("select * from tidegate.settle({claims}, '{{{outcome}}}')");
        assert_eq!(column(&mut worker, &settle).await.len(), 1, "{outcome}");
    }
    for outcome in ["receipt", "retry", "rejected", "released"] {
        let claims = leases(&one(&mut worker, "claim_tx", "tx").await);
        let settle = format!("select * from tidegate.settle({claims}, '{{{outcome}}}', refs => '{{r}}')");
        assert_eq!(column(&mut worker, &settle).await.len(), 1, "{outcome}");
    }
    assert_eq!(value(&mut worker, "select outcome from tidegate.respond('{}', reference => 'r')").await, "completed");
    run(&mut worker, "call tidegate.maintain()").await;
    assert_eq!(value(&mut worker, "select count(*) from tidegate.maintenance where took_ms is null").await, "0");
    reads(&mut worker).await;

    writes_nothing(&mut worker).await;
    calls_no_inner_function(&mut worker).await;
    for call in [
        "submit('direct', '{}')",
        "submit_batch('direct', '{1}')",
        "submit_batch_once('direct', '{1}', 'k')",
        "gate_copy()",
        "cancel(gen_random_uuid())",
        "recover()",
        "time_out('{}')",
        "fail_tx('{}')",
        "fail_internal('{}')",
        "initialise()",
        "pause()",
        "remove_stray_messages('tx')",
    ] {
        is_denied(&mut worker, &format!("select * from tidegate.{call}")).await;
    }
    is_denied(&mut worker, "update tidegate.queue set paused = true").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_submits_answers_cancels_and_maintains_and_nothing_else() {
    let database = TestDatabase::new().await;
    let mut api = login(&database, "api").await;

    let id = value(&mut api, "select id from tidegate.submit('public_decrypt', '{\"é\": 1.0}', 'k')").await;
    assert_eq!(
        value(&mut api, "select outcome from tidegate.submit('public_decrypt', '{\"é\": 1}', 'k')").await,
        "replayed"
    );
    assert_eq!(
        column(&mut api, "select outcome from tidegate.submit_batch('direct', '{1,2}', '{a,b}')").await.len(),
        2
    );
    assert_eq!(
        column(&mut api, "select outcome from tidegate.submit_batch_once('direct', '{1,2}', 'k')").await.len(),
        2
    );
    assert_eq!(column(&mut api, "select * from tidegate.gate_copy()").await.len(), 2);
    assert_eq!(
        value(&mut api, &format!("select retry_after_seconds from tidegate.request_outlook('{id}')")).await,
        "6"
    );
    assert_eq!(value(&mut api, &format!("select outcome from tidegate.respond('{{}}', id => '{id}')")).await, "early");
    assert_eq!(value(&mut api, &format!("select outcome from tidegate.cancel('{id}')")).await, "cancelled");
    run(&mut api, "call tidegate.maintain()").await;
    reads(&mut api).await;

    writes_nothing(&mut api).await;
    calls_no_inner_function(&mut api).await;
    for call in [
        "claim_tx('tx', 'w', 1, '30 s')",
        "claim_readiness('readiness', 'w', 1, '30 s')",
        "settle('{}', '{}')",
        "extend('{}', '30 s')",
        "recover()",
        "fail_internal('{}')",
        "initialise()",
        "pause()",
    ] {
        is_denied(&mut api, &format!("select * from tidegate.{call}")).await;
    }
}

/// The columns that every role may read.
async fn reads_of(session: &mut PgConnection, relation: &str) {
    for what in ["count(*)", "min(t::text)"] {
        column(session, &format!("select {what} from tidegate.{relation} as t")).await;
    }
}

async fn reads(session: &mut PgConnection) {
    for view in [
        "request_eta",
        "queue_position",
        "queue_overview",
        "queue_drain_rate",
        "request_overview",
        "worker_overview",
        "key_list",
        "request",
        "request_event",
        "transition_rule",
        "kind",
        "policy",
    ] {
        reads_of(session, view).await;
    }
    run(session, "select tidegate.request_position(r.id), tidegate.request_retry_after(r.id), o.place from tidegate.request as r, tidegate.request_outlook(r.id) as o").await;
    run(session, "select count(*) from tidegate.list_requests('direct')").await;
    run(session, "select tidegate.eta_seconds('tx_queue', 1, 1, 1, 1, 1, 1, 1, 0, 1, 300), tidegate.response_backoff_seconds('1 s')").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_reads_every_view_and_changes_nothing() {
    let database = TestDatabase::new().await;
    for (kind, status) in [
        ("direct", "completed"),
        ("input_proof", "receipt_received"),
        ("direct", "tx_in_flight"),
        ("public_decrypt", "queued"),
    ] {
        database.execute("update tidegate.queue set per_seconds = null where name = 'tx'").await;
        database.request_in(kind, status).await;
    }
    let mut reader = login(&database, "reader").await;
    reads(&mut reader).await;
    let views = "select c.relname::text from pg_class as c
                 where c.relnamespace = 'tidegate'::regnamespace and c.relkind = 'v'";
    for view in column(&mut reader, views).await {
        reads_of(&mut reader, &view).await;
    }
    run(
        &mut reader,
        "select tidegate.check_invariants('{live_request_without_message}', s.id_from, null)
         from tidegate.invariant_slice(null, '1 second') as s",
    )
    .await;
    for audit in [
        "select from tidegate.request as r cross join lateral tidegate.audit_replay(r.id)",
        r#"select from tidegate.contract_check('[{"type": "semantics", "sem": "at_least_once", "no_side_effect_dup": true},
             {"type": "sli", "retry_rate_le": 1, "dup_drop_rate_le": 1}]')"#,
        "select tidegate.audit_lives('direct', now() - interval '1 hour')",
    ] {
        run(&mut reader, audit).await;
    }
    writes_nothing(&mut reader).await;
    calls_no_inner_function(&mut reader).await;
    for call in [
        "submit('direct', '{}')",
        "cancel(gen_random_uuid())",
        "respond('{}')",
        "claim_tx('tx', 'w', 1, '30 s')",
        "settle('{}', '{}')",
        "expire_by_deadline()",
        "fold_counts()",
        "worker_seen('w', '{}', '{}')",
        "recover()",
        "pause()",
        "contract_record('[]')",
    ] {
        is_denied(&mut reader, &format!("select * from tidegate.{call}")).await;
    }
    is_denied(&mut reader, "call tidegate.maintain()").await;
    is_denied(&mut reader, "update tidegate.setting set min_seconds = 2").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_admin_shapes_queues_and_kinds_by_plain_sql_and_runs_the_operators_functions() {
    let database = TestDatabase::uninitialised().await;
    let mut admin = login(&database, "admin").await;

    run(
        &mut admin,
        "select tidegate.initialise();
         insert into tidegate.queue (name, stage, max_concurrency) values ('own_checks', 'readiness', 5);
         insert into tidegate.queue (name, stage, per_seconds) values ('own_tx', 'tx', 1000);
         insert into tidegate.kind (name, flow, readiness_queue, tx_queue, readiness_ms, processing_ms, tx_confirmation_ms)
         values ('own', 'decrypt', 'own_checks', 'own_tx', 1, 1, 1);
         update tidegate.kind set response_timeout = '1 hour' where name = 'own';
         update tidegate.queue set per_seconds = 500 where name = 'own_tx';
         update tidegate.policy set attempts = 3 where kind = 'own';
         update tidegate.gate set high_water = 100 where queue = 'own_tx';
         update tidegate.setting set max_seconds = 200;
         insert into tidegate.response_backoff values ('30 s', 5);
         insert into tidegate.kind (name, flow, tx_queue) values ('brief', 'direct', 'own_tx');
         delete from tidegate.kind where name = 'brief'",
    )
    .await;
    let id = value(&mut admin, "select id from tidegate.submit('own', '{}')").await;
    let checks = leases(&one(&mut admin, "claim_readiness", "own_checks").await);
    run(&mut admin, &format!("select tidegate.settle({checks}, '{{passed}}')")).await;
    one(&mut admin, "claim_tx", "own_tx").await;
    assert_eq!(value(&mut admin, "select reset from tidegate.recover(reset_all => true, force => true)").await, "1");
    run(&mut admin, "select tidegate.pause('own_tx'); select tidegate.pause(paused => false); select tidegate.remove_stray_messages('own_tx')").await;
    assert_eq!(
        value(&mut admin, &format!("select count(*) from tidegate.fail_internal(array['{id}'::uuid])")).await,
        "1"
    );
    assert_eq!(refused(&mut admin, "delete from tidegate.kind where name = 'own'").await.code, "TG002");
    reads(&mut admin).await;

    writes_nothing(&mut admin).await;
    calls_no_inner_function(&mut admin).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_without_a_group_role_may_do_nothing() {
    let database = TestDatabase::new().await;
    let mut session = database.superuser_session().await;
    run(
        &mut session,
        "do $$ begin create role tidegate_test_nobody nologin; exception when duplicate_object or unique_violation then null; end $$;
         set session authorization tidegate_test_nobody",
    )
    .await;
    for sql in [
        "select * from tidegate.request",
        "select * from tidegate.submit('direct', '{}')",
        "select tidegate.eta_seconds('tx_queue', 1, 1, 1, 1, 1, 1, 1, 0, 1, 300)",
    ] {
        is_denied(&mut session, sql).await;
    }
    // No role may call a function by default.
    let mut owner = database.session().await;
    assert_eq!(
        column(
            &mut owner,
            "select p.oid::regprocedure::text from pg_proc as p where p.pronamespace in ('tidegate'::regnamespace, 'tidegate_internal'::regnamespace)
             and has_function_privilege('tidegate_test_nobody', p.oid, 'execute')"
        )
        .await,
        [""; 0]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn each_role_that_may_maintain_runs_every_duty() {
    let database = TestDatabase::unlimited().await;
    database.submit("direct").await;
    for role in ["worker", "api", "admin"] {
        database
            .execute(
                "select setval('tidegate.watermark_tx', 1000000);
                 update tidegate.maintenance set ran_at = '-infinity', took_ms = null",
            )
            .await;
        let mut session = login(&database, role).await;
        run(&mut session, "call tidegate.maintain()").await;
        // The rescan has found the message below the mark.
        assert_eq!(database.number("select last_value from tidegate.watermark_tx").await, 1, "{role}");
    }
}
