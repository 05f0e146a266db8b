//! Can an operator shape the relay with plain SQL, and is nonsense refused by name?

use tidegate::internals::schema;

use crate::{
    cli::commands::{err, out, run as tidegate},
    support::{
        TestDatabase,
        at_rest::history_violations,
        sql::{claim, column, leases, refused, run, value},
        until_blocked,
    },
};

const NO_ROWS: [&str; 0] = [];

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_and_queues_of_an_operators_own_work_by_plain_inserts() {
    let database = TestDatabase::new().await;
    let mut session = database.session().await;
    run(
        &mut session,
        "insert into tidegate.queue (name, stage, max_concurrency) values ('slow_checks', 'readiness', 3);
         insert into tidegate.queue (name, stage, per_seconds, burst) values ('slow_tx', 'tx', 1000, 10);
         insert into tidegate.kind (name, flow, readiness_queue, tx_queue, response_threshold, readiness_ms, processing_ms, tx_confirmation_ms)
         values ('slow', 'decrypt', 'slow_checks', 'slow_tx', 2, 10, 20, 30)",
    )
    .await;
    assert_eq!(
        column(
            &mut session,
            "select row(stage, attempts, semantics)::text from tidegate.policy where kind = 'slow' order by stage"
        )
        .await,
        ["(readiness,52,at_least_once)", "(tx,38,at_least_once)"]
    );
    assert_eq!(
        column(&mut session, "select row(queue, state)::text from tidegate.gate where queue like 'slow%' order by 1")
            .await,
        ["(slow_checks,accepting)", "(slow_tx,accepting)"]
    );

    let submitted = value(
        &mut session,
        "select row(outcome, queue, queue_position, retry_after_seconds)::text from tidegate.submit('slow', '{}')",
    )
    .await;
    assert_eq!(submitted, "(accepted,slow_checks,0,1)");
    let checks = claim(&mut session, "claim_readiness", "slow_checks", "w", 5).await;
    assert_eq!(
        column(
            &mut session,
            &format!(
                "select row(s.req_status, s.queue, s.wake)::text from tidegate_internal.settle_passed({}) as s",
                leases(&checks)
            )
        )
        .await,
        ["(processing,slow_tx,t)"]
    );
    let sends = claim(&mut session, "claim_tx", "slow_tx", "w", 5).await;
    assert_eq!(
        column(
            &mut session,
            &format!(
                "select s.req_status::text from tidegate_internal.settle_receipt({}, array['r']) as s",
                leases(&sends)
            )
        )
        .await,
        ["receipt_received"]
    );
    for (part, outcome) in [("one", "stored"), ("one", "duplicate"), ("two", "completed"), ("three", "late")] {
        assert_eq!(
            value(
                &mut session,
                &format!("select outcome from tidegate.respond('\"share\"', reference => 'r', part => '{part}')")
            )
            .await,
            outcome
        );
    }
    assert_eq!(
        value(&mut session, "select response from tidegate.request").await,
        "{\"shares\": {\"one\": \"share\", \"two\": \"share\"}}"
    );
    run(&mut session, "call tidegate.maintain()").await;
    assert_eq!(history_violations(&mut session).await, NO_ROWS);
    assert_eq!(
        column(&mut session, "select queue from tidegate.queue_overview order by 1").await,
        ["readiness", "slow_checks", "slow_tx", "tx"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_with_requests_stays_and_one_without_goes_with_its_policies() {
    let database = TestDatabase::new().await;
    let mut session = database.session().await;
    run(&mut session, "insert into tidegate.kind (name, flow, tx_queue) values ('empty', 'direct', 'tx')").await;
    database.request_in("direct", "completed").await;

    let refusal = refused(&mut session, "delete from tidegate.kind where name = 'direct'").await;
    assert_eq!(refusal.code, "TG002");
    assert!(refusal.message.contains("direct"), "{refusal:?}");
    run(&mut session, "delete from tidegate.kind where name = 'empty'").await;
    assert_eq!(value(&mut session, "select count(*) from tidegate.policy where kind = 'empty'").await, "0");

    run(&mut session, "delete from tidegate.request; delete from tidegate.kind where name = 'direct'").await;
    assert_eq!(refused(&mut session, "select tidegate.submit('direct', '{}')").await.code, "TG002");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_is_not_deleted_from_under_a_submission_that_is_just_committing() {
    let database = TestDatabase::new().await;
    let mut caller = database.session().await;
    run(&mut caller, "begin; select tidegate.submit('direct', '{}')").await;

    let mut operator = database.session().await;
    let deletion =
        tokio::spawn(
            async move { refused(&mut operator, "delete from tidegate.kind where name = 'direct'").await.code },
        );
    until_blocked(&database, 1).await;
    run(&mut caller, "commit").await;

    assert_eq!(deletion.await.unwrap(), "TG002");
    assert_eq!(database.claim_tx(1).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn live_requests_keep_flow_and_queue_when_their_kind_is_pointed_elsewhere() {
    let database = TestDatabase::unlimited().await;
    let mut session = database.session().await;
    database.submit("public_decrypt").await;
    run(
        &mut session,
        "insert into tidegate.queue (name, stage) values ('other_checks', 'readiness'), ('other_tx', 'tx');
         update tidegate.kind set readiness_queue = 'other_checks', tx_queue = 'other_tx', response_threshold = 5 where name = 'public_decrypt'",
    )
    .await;
    let checks = database.claim_readiness(5).await;
    assert_eq!(checks.len(), 1, "it waits where it was put");
    run(&mut session, &format!("select tidegate_internal.settle_passed({})", leases(&checks))).await;
    let sends = claim(&mut session, "claim_tx", "other_tx", "w", 5).await;
    assert_eq!(sends.len(), 1, "and goes on where its kind points now");
    run(&mut session, "update tidegate.kind set flow = 'direct', readiness_queue = null, response_threshold = 1 where name = 'public_decrypt'").await;
    run(&mut session, &format!("select tidegate_internal.settle_receipt({}, array['r'])", leases(&sends))).await;
    assert_eq!(value(&mut session, "select outcome from tidegate.respond('1', reference => 'r')").await, "completed");
    assert_eq!(history_violations(&mut session).await, NO_ROWS);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_accepted_before_the_nominal_times_are_set_and_then_it_is() {
    let database = TestDatabase::uninitialised().await;
    let mut session = database.session().await;
    for kind in ["public_decrypt", "user_decrypt", "input_proof", "direct"] {
        let refusal = refused(&mut session, &format!("select * from tidegate.submit('{kind}', '{{}}')")).await;
        assert_eq!(refusal.code, "TG003");
        assert!(refusal.message.contains(kind), "{refusal:?}");
        assert!(refusal.hint.contains("tidegate init") && refusal.hint.contains("config set"), "{refusal:?}");
    }
    run(
        &mut session,
        "update tidegate.kind set processing_ms = 0, tx_confirmation_ms = 0 where name in ('direct', 'public_decrypt')",
    )
    .await;
    assert_eq!(value(&mut session, "select outcome from tidegate.submit('direct', '{}')").await, "accepted");
    assert_eq!(
        refused(&mut session, "select tidegate.submit('public_decrypt', '{}')").await.code,
        "TG003",
        "a check's time is missing"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn initialise_sets_what_is_unset_once_and_leaves_later_changes_alone() {
    let database = TestDatabase::uninitialised().await;
    let mut session = database.session().await;
    // Chosen before.
    run(&mut session, "update tidegate.kind set processing_ms = 77 where name = 'direct'; update tidegate.queue set per_seconds = 3 where name = 'tx'").await;
    let set =
        column(&mut session, "select format('%s %s %s', subject, name, value) from tidegate.initialise() order by 1")
            .await;
    assert_eq!(set.len(), 17, "{set:?}");
    assert!(
        set.contains(&"kind public_decrypt processing_ms 4000".to_owned())
            && set.contains(&"gate tx high_water/low_water 2000/1000".to_owned())
    );
    let configuration = "select jsonb_build_array((select jsonb_agg(q order by name) from tidegate.queue as q), (select jsonb_agg(k order by name) from tidegate.kind as k),
       (select jsonb_agg(g order by queue) from tidegate.gate as g), (select jsonb_agg(s) from tidegate.setting as s))";
    assert_eq!(
        column(
            &mut session,
            "select name || ' ' || coalesce(per_seconds, max_concurrency) from tidegate.queue order by 1"
        )
        .await,
        ["readiness 50", "tx 3"]
    );

    // Changed later: to other values, and to no limit at all.
    run(
        &mut session,
        "update tidegate.queue set per_seconds = null, max_concurrency = null; update tidegate.kind set processing_ms = 5, retention = null;
         update tidegate.gate set high_water = 30, low_water = 15; update tidegate.setting set safety_margin = 0",
    )
    .await;
    let before = value(&mut session, configuration).await;
    assert_eq!(column(&mut session, "select subject from tidegate.initialise()").await, NO_ROWS);
    assert_eq!(value(&mut session, configuration).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn initialise_gives_the_gates_of_the_seed_when_they_are_named_and_only_then() {
    let marks = "select string_agg(concat_ws(' ', name, high_water, low_water), ', ' order by name) from tidegate.gate";
    let seed = "readiness 30 15, tx 30 15";
    let database = TestDatabase::empty().await;
    schema::migrate(&database.url).await.unwrap();

    let unknown = tidegate(&database.url, &["init", "--example", "relayer", "--gates", "wide"]).await;
    assert_eq!(unknown.status.code(), Some(1));
    assert!(err(&unknown).contains("there are: seed"), "{}", err(&unknown));
    assert_eq!(database.text(marks).await, None, "nothing was made");

    let set = tidegate(&database.url, &["init", "--example", "relayer", "--gates", "seed"]).await;
    assert!(out(&set).contains("30/15") && !out(&set).contains("2000/1000"), "{}", out(&set));
    assert_eq!(database.value(marks).await, seed);
    // Marks are written once, whichever they are.
    let again = tidegate(&database.url, &["init"]).await;
    assert!(out(&again).contains("nothing changed"), "{}", out(&again));
    assert_eq!(database.value(marks).await, seed);

    let database = TestDatabase::uninitialised().await;
    database.store.initialise(None, None).await.unwrap();
    database.store.initialise(None, Some("seed")).await.unwrap();
    assert_eq!(database.value(marks).await, "readiness 2000 1000, tx 2000 1000");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_an_operator_has_deleted_stays_deleted() {
    let database = TestDatabase::new().await;
    database
        .execute(
            "delete from tidegate.kind where name = 'user_decrypt';
             update tidegate.schema_state set fingerprint = 'that of another version'",
        )
        .await;

    let migrated = schema::migrate(&database.url).await.unwrap();
    assert!(migrated.sql_applied);
    database.store.initialise(None, None).await.unwrap();

    let kinds = "select string_agg(name, ' ' order by name) from tidegate.kind";
    assert_eq!(database.text(kinds).await.as_deref(), Some("direct input_proof public_decrypt"));

    database.store.initialise(Some("relayer"), None).await.unwrap();
    assert_eq!(database.text(kinds).await.as_deref(), Some("direct input_proof public_decrypt user_decrypt"));
    assert_eq!(
        database
            .text(
                "select readiness_ms || ' ' || justify_hours(retention) from tidegate.kind where name = 'user_decrypt'"
            )
            .await
            .as_deref(),
        Some("2000 30 days"),
        "a kind that is made again gets its starter set again"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_stays_as_long_as_its_kind() {
    let database = TestDatabase::new().await;
    database.execute("insert into tidegate.kind (name, flow, tx_queue) values ('short_lived', 'direct', 'tx')").await;

    let refused = sqlx::raw_sql("delete from tidegate.policy where kind = 'short_lived'")
        .execute(&database.pool)
        .await
        .unwrap_err();

    assert!(refused.to_string().contains("stays as long as the kind"), "{refused}");
    database.execute("delete from tidegate.kind where name = 'short_lived'").await;
    assert_eq!(database.number("select count(*) from tidegate.policy where kind = 'short_lived'").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_comes_again_goes_on_with_the_versions_of_its_name() {
    let database = TestDatabase::unlimited().await;
    let add = "insert into tidegate.kind (name, flow, tx_queue, processing_ms, tx_confirmation_ms)
               values ('again', 'direct', 'tx', 1, 1)";
    database.execute(add).await;
    database.execute("delete from tidegate.kind where name = 'again'").await;
    database.execute(add).await;
    assert_eq!(database.value("select version from tidegate.policy_in_force where kind = 'again'").await, "2");
}
