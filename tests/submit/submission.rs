//! What does a submission make, what does it answer, and what does it refuse?

use crate::support::{
    TestDatabase,
    at_rest::violations,
    sql::{column, everything, refused, run, value},
};

const NO_ROWS: [&str; 0] = [];

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_answers_with_every_documented_column() {
    let database = TestDatabase::new().await;
    let mut session = database.session().await;
    for (kind, status, queue, first, third) in [
        ("public_decrypt", "queued", "readiness", 5, 5),
        ("user_decrypt", "queued", "readiness", 5, 6),
        ("input_proof", "processing", "tx", 3, 3),
        ("direct", "processing", "tx", 3, 3),
    ] {
        for (place, seconds) in [first, first.max(third), third].into_iter().enumerate() {
            let told = column(
                &mut session,
                &format!(
                    "select row(s.*)::text from tidegate.submit('{kind}', '{{\"a\": 1}}', submitter => 'me') as s"
                ),
            )
            .await;
            assert_eq!(told.len(), 1);
            let id = &told[0][1..37];
            let before = value(&mut session, &format!("select tidegate.request_position('{id}')")).await;
            assert!(told[0].starts_with(&format!("({id},accepted,{status},{queue},{before},")), "{told:?}");
            if kind != "user_decrypt" && kind != "direct" {
                assert_eq!(before, place.to_string());
                assert_eq!(told[0], format!("({id},accepted,{status},{queue},{place},{seconds})"));
            }
            assert_eq!(
                value(
                    &mut session,
                    &format!(
                        "select row(kind, req_status, submitter, payload, cause, transition_no, tx_attempt, readiness_attempt,
                           deadline_at - submitted_at, readiness_deadline_at - submitted_at,
                           id between tidegate.uuid_v7_floor(submitted_at - interval '1 s') and tidegate.uuid_v7_floor(submitted_at + interval '1 s'))::text
                         from tidegate.request where id = '{id}'"
                    )
                )
                .await,
                format!(
                    "({kind},{status},me,\"{{\"\"a\"\": 1}}\",submitted,1,0,0,01:00:00,{},t)",
                    if status == "queued" { "00:15:00" } else { "" }
                )
            );
        }
    }
    assert_eq!(violations(&mut database.session().await).await, NO_ROWS);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_parameters_have_the_documented_names_and_types() {
    let database = TestDatabase::new().await;
    assert_eq!(
        database
            .column(
                "select pg_get_function_arguments(oid) from pg_proc
                 where pronamespace = 'tidegate'::regnamespace and proname in ('submit', 'submit_batch') order by proname"
            )
            .await,
        [
            "kind text, payload jsonb, idempotency_key text DEFAULT NULL::text, submitter text DEFAULT NULL::text, \
             admission text DEFAULT 'enforce'::text, not_before timestamp with time zone DEFAULT NULL::timestamp with time zone, same_key text DEFAULT 'compare'::text, \
             key_patience_ms integer DEFAULT NULL::integer, traceparent text DEFAULT NULL::text",
            "kind text, payloads jsonb[], idempotency_keys text[] DEFAULT NULL::text[], submitter text DEFAULT NULL::text, \
             admission text DEFAULT 'enforce'::text, traceparent text DEFAULT NULL::text",
        ]
    );
    assert_eq!(
        database.value("select replace(pg_get_function_result('tidegate.submit'::regproc), 'tidegate.', '')").await,
        "TABLE(id uuid, outcome text, req_status request_status, queue text, queue_position bigint, retry_after_seconds integer)"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_submission_is_refused_by_its_own_code_and_leaves_nothing() {
    let database = TestDatabase::new().await;
    let mut session = database.session().await;
    run(&mut session, "update tidegate.kind set tx_confirmation_ms = null where name = 'input_proof'").await;
    let before = everything(&mut session).await;

    for (arguments, code, says) in [
        ("submit('no_such', '{}')", "TG002", "no_such"),
        ("submit(null, '{}')", "TG002", ""),
        ("submit_batch('no_such', '{}')", "TG002", "no_such"),
        ("submit('input_proof', '{}')", "TG003", "input_proof"),
        ("submit_batch('input_proof', '{}')", "TG003", "input_proof"),
        ("submit('direct', null)", "TG007", "payload"),
        ("submit('direct', '{}', admission => 'please')", "TG007", "please"),
        ("submit('direct', '{}', admission => null)", "TG007", "admission"),
        ("submit('direct', '{}', idempotency_key => '')", "TG007", "1 to 255"),
        ("submit('direct', '{}', idempotency_key => repeat('k', 256))", "TG007", "256"),
        ("submit('direct', '{}', not_before => 'infinity')", "TG007", "not_before"),
        ("submit_batch('direct', array['{}', null, '{}']::jsonb[])", "TG007", "payload 2"),
        ("submit_batch('direct', array['{}']::jsonb[], array['a', 'b'])", "TG007", "not 2"),
        ("submit_batch('direct', array['{}', '{}']::jsonb[], '{}')", "TG007", "not 0"),
        ("submit_batch('direct', array['{}', '{}']::jsonb[], array['good', ''])", "TG007", "1 to 255"),
        ("submit_batch('direct', array_fill('{}'::jsonb, array[10001]))", "TG007", "10001"),
    ] {
        let refusal = refused(&mut session, &format!("select * from tidegate.{arguments}")).await;
        assert_eq!(refusal.code, code, "{arguments}: {refusal:?}");
        assert!(refusal.message.contains(says), "{arguments}: {refusal:?}");
        assert!(before == everything(&mut session).await, "{arguments} left something");
    }
    let refusal = refused(&mut session, "select * from tidegate.submit('input_proof', '{}')").await;
    assert!(refusal.hint.contains("tidegate init") && refusal.hint.contains("config set"), "{refusal:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn any_json_is_a_payload_and_is_kept_as_it_came() {
    let database = TestDatabase::new().await;
    for payload in ["null", "1", "\"x\"", "[]", "{}", "{\"é\": \"\\ud83d\\ude00\", \"n\": 1.50}", "[[[[[]]]]]"] {
        let sql = format!(
            "select payload = '{payload}'::jsonb from tidegate.request where id = (select id from tidegate.submit('direct', '{payload}'))"
        );
        // A function's own writes are not seen by the statement that called it.
        database.execute(&sql).await;
        assert_eq!(
            database
                .value(&format!(
                    "select payload::text = '{payload}'::jsonb::text from tidegate.request order by id desc limit 1"
                ))
                .await,
            "t"
        );
    }
    let deep = format!("{}1.0{}", "[".repeat(2000), "]".repeat(2000));
    assert_eq!(
        database.value(&format!("select outcome from tidegate.submit('direct', '{deep}', 'deep')")).await,
        "accepted"
    );
    assert_eq!(
        database.value(&format!("select outcome from tidegate.submit('direct', '{deep}', 'deep')")).await,
        "replayed"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_taken_whole_in_its_order_and_up_to_ten_thousand() {
    let database = TestDatabase::new().await;
    assert_eq!(database.column("select s.id::text from tidegate.submit_batch('direct', '{}') as s").await, NO_ROWS);
    assert_eq!(database.column("select s.id::text from tidegate.submit_batch('direct', null) as s").await, NO_ROWS);

    assert_eq!(
        database
            .value(
                "select row(count(*), count(distinct id), min(queue_position), max(queue_position), bool_and(outcome = 'accepted'),
                   bool_and(queue_position = place - 1))::text
                 from tidegate.submit_batch('direct', array(select to_jsonb(i) from generate_series(1, 10000) as i))
                   with ordinality as s(id, outcome, req_status, queue, queue_position, retry_after_seconds, place)"
            )
            .await,
        "(10000,10000,0,9999,t,t)"
    );
    // Ids, numbers and payloads ascend together.
    assert_eq!(
        database
            .value(
                "select bool_and(payload = to_jsonb(by_id) and by_id = by_number)
                 from (select payload, row_number() over (order by id) as by_id, row_number() over (order by msg_id) as by_number from tidegate.request) as r"
            )
            .await,
        "t"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn one_bad_element_refuses_the_whole_batch() {
    let database = TestDatabase::new().await;
    let mut session = database.session().await;
    run(&mut session, "select tidegate.submit('direct', '1', 'taken')").await;
    let before = everything(&mut session).await;

    let refusal = refused(
        &mut session,
        "select * from tidegate.submit_batch('direct', array['1', '2', '3']::jsonb[], array['new', null, 'taken'])",
    )
    .await;

    assert_eq!(refusal.code, "TG004");
    assert!(before == everything(&mut session).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_commits_and_vanishes_with_its_callers_transaction() {
    let database = TestDatabase::new().await;
    let mut caller = database.session().await;
    let mut other = database.session().await;
    let before = everything(&mut other).await;

    run(
        &mut caller,
        "begin; select tidegate.submit('direct', '{}', 'k'); select tidegate.submit_batch('public_decrypt', '{1,2}')",
    )
    .await;
    assert!(before == everything(&mut other).await, "no other session sees it before the commit");
    assert_eq!(database.claim_tx(10).await.len(), 0);
    run(&mut caller, "rollback").await;
    assert!(before == everything(&mut other).await, "a rollback leaves nothing");

    run(&mut caller, "begin; select tidegate.submit('direct', '{}', 'k')").await;
    assert_eq!(value(&mut caller, "select outcome from tidegate.submit('direct', '{}', 'k')").await, "replayed");
    run(&mut caller, "commit").await;
    assert_eq!(value(&mut other, "select outcome from tidegate.submit('direct', '{}', 'k')").await, "replayed");
    assert_eq!(database.claim_tx(10).await.len(), 1);
    assert_eq!(violations(&mut other).await, NO_ROWS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_with_a_start_time_waits_for_it_and_its_deadlines_count_from_then() {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "select tidegate.submit('direct', '1', not_before => clock_timestamp() + interval '2 hours');
             select tidegate.submit('public_decrypt', '2', not_before => clock_timestamp() + interval '2 hours');
             select tidegate.submit('direct', '3', not_before => clock_timestamp() - interval '2 hours');
             select tidegate.submit('direct', '4', not_before => '-infinity')",
        )
        .await;

    assert_eq!(database.claim_tx(10).await.len(), 2);
    assert_eq!(database.claim_readiness(10).await.len(), 0);
    assert_eq!(
        database
            .column(
                "select row(round(extract(epoch from deadline_at - submitted_at) / 60), round(extract(epoch from readiness_deadline_at - submitted_at) / 60))::text
                 from tidegate.request order by payload"
            )
            .await,
        ["(180,)", "(180,135)", "(60,)", "(60,)"]
    );
    // Its time comes.
    database
        .execute("update pgmq.q_tx set vt = clock_timestamp() - interval '1 ms' where vt > clock_timestamp()")
        .await;
    assert_eq!(database.claim_tx(10).await.len(), 1);
}
