//! What does the database make of a hand edit: what does it fill in, put back, and refuse?

use crate::support::{
    TestDatabase,
    race::{Session, expire_leases, sound},
    sql::{column, run, value},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_hand_edit_that_sets_nothing_but_the_status_is_completed_and_labelled() {
    let database = TestDatabase::new().await;
    let id = database.submit("public_decrypt").await;
    let mut no = 1;

    for (to, column) in [
        ("processing", "processing_at"),
        ("tx_in_flight", "tx_in_flight_at"),
        ("processing", "processing_at"),
        ("tx_in_flight", "tx_in_flight_at"),
        ("receipt_received", "receipt_received_at"),
        ("completed", "finished_at"),
    ] {
        let before = database.value("select clock_timestamp()").await;
        let from = database.status(id).await;
        database.execute(&format!("update tidegate.request set req_status = '{to}' where id = '{id}'")).await;
        no += 1;
        assert_eq!(
            database
                .value(&format!(
                    "select row(r.previous_status, r.transition_no, r.cause, r.{column} between '{before}' and clock_timestamp(),
                       e.from_status, e.cause, e.at = r.{column}, e.detail ->> 'session_user' = session_user)::text
                     from tidegate.request as r
                     join tidegate.request_event as e on e.request_id = r.id and e.transition_no = r.transition_no
                     where r.id = '{id}'"
                ))
                .await,
            format!("({from},{no},hand_edit,t,{from},hand_edit,t,t)")
        );
    }
    assert_eq!(database.number("select count(*) from tidegate.awaiting_response").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hand_edit_to_receipt_received_is_awaited_and_expires_like_any_other() {
    let database = TestDatabase::new().await;
    let id = database.request_in("direct", "tx_in_flight").await;

    database.execute("update tidegate.request set req_status = 'receipt_received'").await;

    assert_eq!(
        database
            .value(&format!(
                "select due_at = r.receipt_received_at + interval '30 minutes'
                 from tidegate.awaiting_response as a join tidegate.request as r on r.id = a.request_id where r.id = '{id}'"
            ))
            .await,
        "t"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_status_change_the_history_fields_are_put_back() {
    let database = TestDatabase::new().await;
    let id = database.request_in("direct", "tx_in_flight").await;

    database
        .execute(&format!(
            "update tidegate.request set transition_no = 40, cause = 'nonsense', previous_status = 'failure', worker = 'me' where id = '{id}';
             update tidegate.request set transition_no = transition_no + 1, req_status = req_status where id = '{id}';
             update tidegate.request set transition_no = null where id = '{id}'"
        ))
        .await;

    assert_eq!(
        database
            .value(&format!("select row(transition_no, cause, worker)::text from tidegate.request where id = '{id}'"))
            .await,
        "(2,claimed,me)"
    );
    assert_eq!(database.number("select count(*) from tidegate.request_event").await, 2);
    // And the next transition is numbered on from there.
    database
        .execute(&format!("update tidegate.request set req_status = 'failure', transition_no = 99 where id = '{id}'"))
        .await;
    assert_eq!(
        database
            .value("select string_agg(transition_no || ' ' || cause, ', ' order by transition_no) from tidegate.request_event")
            .await,
        "1 submitted, 2 claimed, 3 hand_edit"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn identity_never_changes_and_live_rows_are_never_lost() {
    let database = TestDatabase::new().await;
    let live = database.submit("public_decrypt").await;
    let done = database.request_in("direct", "completed").await;

    for set in [
        "id = gen_random_uuid()",
        "kind = 'user_decrypt'",
        "flow = 'proof'",
        "kind = null",
        "flow = 'direct', kind = 'direct', req_status = 'processing'",
    ] {
        for id in [live.0, done] {
            let refusal = database.refused(&format!("update tidegate.request set {set} where id = '{id}'")).await;
            assert_eq!(refusal.code, "TG001", "{set}");
            assert!(refusal.message.contains(&id.to_string()), "{refusal:?}");
        }
    }
    for sql in [
        format!("delete from tidegate.request where id = '{live}'"),
        "delete from tidegate.request".to_owned(),
        "truncate tidegate.request".to_owned(),
        "truncate tidegate.request cascade".to_owned(),
    ] {
        assert_eq!(database.refused(&sql).await.code, "TG001", "{sql}");
    }
    assert_eq!(database.number("select count(*) from tidegate.request").await, 2);

    database.execute(&format!("delete from tidegate.request where id = '{done}'")).await;
    assert_eq!(database.number("select count(*) from tidegate.request").await, 1);
}

/// The functions that skip the triggers do so for themselves only.
#[tokio::test(flavor = "multi_thread")]
async fn a_hand_edit_in_the_transaction_of_a_function_is_labelled_and_counted() {
    let database = TestDatabase::unlimited().await;
    let mut session = database.session().await;
    run(&mut session, "begin").await;
    let claimed = |stage: &str, queue: &str| {
        format!("array(select c.lease from tidegate.claim_{stage}('{queue}', 'w', 1, '1 minute') as c)")
    };
    let readiness = format!("tidegate_internal.settle_passed({})", claimed("readiness", "readiness"));
    let sent = format!("tidegate_internal.settle_receipt({}, array['r'])", claimed("tx", "tx"));
    for (call, status) in [
        ("tidegate.submit('public_decrypt', '{}')", "queued"),
        (readiness.as_str(), "processing"),
        (sent.as_str(), "receipt_received"),
        ("tidegate.respond('{}', reference => 'r')", "completed"),
        ("tidegate.submit_batch('direct', array['{}'::jsonb])", "processing"),
        ("tidegate.claim_tx('tx', 'w', 1, '1 minute')", "tx_in_flight"),
    ] {
        run(&mut session, &format!("select count(*) from {call}")).await;
        let newest = "select req_status::text from tidegate.request order by id desc limit 1";
        assert_eq!(value(&mut session, newest).await, status, "{call}");
        run(&mut session, "savepoint before").await;
        run(
            &mut session,
            "delete from tidegate.request_count_delta;
             update tidegate.request set req_status = 'failure' where req_status <> 'completed';
             insert into tidegate.request (id, kind, flow, req_status, processing_at, deadline_at, payload)
             values (gen_random_uuid(), 'direct', 'direct', 'processing', now(), now(), '{}')",
        )
        .await;
        let edited = "select count(*)::text from tidegate.request where cause = 'hand_edit'";
        let counted = "select coalesce(sum(delta), 0)::text from tidegate.request_count_delta";
        let expected = if status == "completed" { "1" } else { "2" };
        assert_eq!(
            [value(&mut session, edited).await, value(&mut session, counted).await],
            [expected, expected],
            "{call}"
        );
        run(&mut session, "rollback to savepoint before").await;
    }
}

/// No session sets them for a function that relies on the triggers.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_sets_what_functions_declare_changes_nothing() {
    for setting in ["declared", "counted"] {
        let database = TestDatabase::unlimited().await;
        database.execute("update tidegate.policy set base_ms = 0, jitter_ms = 0").await;
        let mut session = Session::open(&database).await;
        session.execute(&format!("set tidegate.{setting} = 'on'")).await;
        for call in [
            "tidegate.submit_batch('public_decrypt', array_fill('{}'::jsonb, array[3]))",
            "tidegate.set_response_threshold(c.lease, 2) from tidegate.claim_readiness('readiness', 'w', 1, '1 minute') as c",
            "tidegate_internal.settle_released(array[c.lease]) from tidegate.claim_readiness('readiness', 'w', 1, '1 minute') as c",
            "tidegate_internal.settle_snooze(array[c.lease]) from tidegate.claim_readiness('readiness', 'w', 1, '1 minute') as c",
            "tidegate_internal.settle_passed(array[c.lease]) from tidegate.claim_readiness('readiness', 'w', 1, '1 minute') as c",
            "tidegate_internal.settle_released(array[c.lease]) from tidegate.claim_tx('tx', 'w', 1, '1 minute') as c",
            r#"tidegate_internal.settle_retry(array[c.lease], array['{"code": "c", "message": "m", "retryable": true}'::jsonb],
                 array[interval '0']) from tidegate.claim_tx('tx', 'w', 1, '1 minute') as c"#,
            "tidegate.claim_tx('tx', 'w', 1, '1 minute')",
        ] {
            let moved = session.texts(&format!("select {call}")).await;
            assert!(!moved.is_empty(), "{call}");
            sound(&database).await;
        }
        for (what, call) in [
            ("the lease of its worker ran out", "tidegate.claim_tx('tx', 'w', 1, '1 minute')"),
            ("and again", "tidegate.recover()"),
        ] {
            expire_leases(&database, "tx").await;
            session.texts(&format!("select {call}")).await;
            let recovered = "select count(*) from tidegate.request_event where cause = 'recovered'";
            assert_ne!(database.number(recovered).await, 0, "{what}");
            sound(&database).await;
        }
        session
            .texts("select tidegate.cancel(r.id) from tidegate.request as r where r.req_status <> 'tx_in_flight'")
            .await;
        sound(&database).await;
    }
}

/// One that forgets to declare a step would leave a wrong history.
#[tokio::test(flavor = "multi_thread")]
async fn every_update_that_may_skip_the_guard_names_the_previous_status() {
    let database = TestDatabase::new().await;
    let mut session = database.session().await;
    let updates = "select p.proname || ' ' || count(*)
         from pg_proc as p
         cross join lateral regexp_split_to_table(p.prosrc, 'set_config\\(''tidegate.declared'', ') with ordinality as u(part, place)
         where p.pronamespace in ('tidegate'::regnamespace, 'tidegate_internal'::regnamespace) and u.part ~ '^pg_current_xact_id'
           and (u.part ~ '^[^;]*;[^;]*update tidegate\\.request as r\\s+set\\s[^;]*previous_status = r\\.req_status[^;]*;') = {named}
         group by p.proname order by 1";
    let named = column(&mut session, &updates.replace("{named}", "true")).await;
    assert_eq!(named, ["answer_requests 1", "claim_readiness 1", "claim_tx 1", "settle_passed 1", "settle_receipt 2"]);
    let others = column(&mut session, &updates.replace("{named}", "false")).await;
    assert_eq!(others, ["delete_requests 1"], "it deletes");
}
