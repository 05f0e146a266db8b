//! What is learned of a request after its end: who is believed, and what follows from it?

use serde_json::Value;

use crate::{
    cli::commands::{err, out, run},
    support::{
        TestDatabase,
        race::{Session, against, sound},
    },
};

/// A request of `direct` under the key `k` that failed during its only send; its id, and its lease.
async fn lost(database: &TestDatabase) -> (String, String) {
    let mut session = Session::open(database).await;
    let id = session.text("select id from tidegate.submit('direct', '1', 'k')").await;
    let lease = format!("'{}'::tidegate.lease", session.claim("tx", 1).await[0].lease);
    database.execute(&format!("select tidegate.fail_request('{id}', 'lost')")).await;
    (id, lease)
}

/// What is known of a request, whether its error may be repeated, and its message.
async fn told(database: &TestDatabase, id: &str) -> String {
    database
        .value(&format!(
            "select concat_ws(' ', o.executed, o.source, r.error ->> 'retryable', r.error ->> 'message')
             from tidegate.outcome as o join tidegate.request as r on r.id = o.request_id where r.id = '{id}'"
        ))
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn late_answers_of_workers_and_of_the_downstream_resolve_a_request() {
    let yes = |source: &str| format!("yes {source} false lost; it was executed");
    let no = "no settle true lost; it was not executed".to_owned();
    let unknown = "unknown attempts false lost; it may have been executed: poll it, ask the downstream, or send it again under a new key".to_owned();
    let refused = r#"array['{"code": "http_422", "message": "no"}'::jsonb]"#;
    for (late, expected) in [
        ("tidegate_internal.settle_receipt(array[$l], responses => array['1'::jsonb])".to_owned(), yes("response")),
        ("tidegate_internal.settle_receipt(array[$l], array['r'])".to_owned(), unknown.clone()),
        (format!("tidegate_internal.settle_rejected(array[$l], {refused})"), no.clone()),
        (format!("tidegate_internal.settle_rejected(array[$l], {refused}, hedges => '{{1}}')"), unknown.clone()),
        ("tidegate_internal.settle_retry(array[$l], null, may_have_left => '{false}')".to_owned(), no.clone()),
        ("tidegate_internal.settle_retry(array[$l], null)".to_owned(), unknown),
        ("tidegate.respond('1', id => '$i')".to_owned(), yes("response")),
    ] {
        let database = TestDatabase::unlimited().await;
        let (id, lease) = lost(&database).await;
        let late = late.replace("$l", &lease).replace("$i", &id);
        for _ in 0..2 {
            database.execute(&format!("select {late}")).await;
            assert_eq!(told(&database, &id).await, expected, "{late}");
        }
        // The key goes by it.
        let again = database.value("select outcome from tidegate.submit('direct', '1', 'k')").await;
        assert_eq!(again, if expected == no { "accepted" } else { "replayed" }, "{late}");
        assert_eq!(database.status(tidegate::request::RequestId(id.parse().unwrap())).await, "failure");
        sound(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reference_that_comes_late_leads_responses_to_the_request() {
    let database = TestDatabase::unlimited().await;
    let (id, lease) = lost(&database).await;
    database.execute(&format!("select tidegate_internal.settle_receipt(array[{lease}], array['r'])")).await;
    let late = "select request_id || ' ' || outcome from tidegate.respond('1', reference => 'r')";
    assert_eq!(database.value(late).await, format!("{id} late"));
    assert!(told(&database, &id).await.starts_with("yes response"));
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_downstream_is_believed_before_an_operator_and_a_contradiction_is_kept() {
    let database = TestDatabase::unlimited().await;
    let (id, _) = lost(&database).await;
    let contradiction =
        "select concat_ws(' ', contradicted_by ->> 'executed', contradicted_by ->> 'source') from tidegate.outcome";
    for (executed, by_downstream, outcome, kept) in [
        ("no", false, "resolved no operator", ""),
        ("no", false, "known no operator", ""),
        ("yes", false, "resolved yes operator", "no operator"),
        ("no", true, "resolved no downstream", "yes operator"),
        ("yes", false, "kept no downstream", "yes operator"),
        ("yes", true, "resolved yes downstream", "no downstream"),
        ("no", true, "kept yes downstream", "no downstream"),
    ] {
        let said = format!(
            "select concat_ws(' ', s.outcome, s.known, s.source)
             from tidegate.resolve('{id}', '{executed}', 'seen', by_downstream => {by_downstream}) as s"
        );
        assert_eq!(database.value(&said).await, outcome, "{executed} {by_downstream}");
        assert_eq!(database.value(contradiction).await, kept, "{executed} {by_downstream}");
    }
    assert_eq!(database.number("select count(*) from tidegate.unresolved").await, 0);
    sound(&database).await;

    let live = database.submit("direct").await;
    let outcome = format!("select outcome from tidegate.resolve('{live}', 'yes')");
    assert_eq!(database.value(&outcome).await, "not_unresolved");
    for (call, code) in [
        ("tidegate.resolve('00000000-0000-7000-8000-000000000000', 'yes')", "TG006"),
        (&*format!("tidegate.resolve('{id}', 'unknown')"), "TG007"),
    ] {
        assert_eq!(database.refused(&format!("select {call}")).await.code, code, "{call}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_who_resolve_at_once_the_later_one_sees_what_the_other_has_said() {
    for commits in [true, false] {
        let database = TestDatabase::unlimited().await;
        let (id, _) = lost(&database).await;
        let mut first = Session::begin(&database).await;
        first.texts(&format!("select outcome from tidegate.respond('1', id => '{id}')")).await;
        let said =
            against(&database, &mut first, commits, &format!("select outcome from tidegate.resolve('{id}', 'no')"))
                .await;
        assert_eq!(said, [if commits { "kept" } else { "resolved" }]);
        let again = database.value("select outcome from tidegate.submit('direct', '1', 'k')").await;
        assert_eq!(again, if commits { "replayed" } else { "accepted" });
        sound(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_lists_what_is_unresolved_and_takes_an_operators_word() {
    let database = TestDatabase::unlimited().await;
    let (id, _) = lost(&database).await;
    let listed = out(&run(&database.url, &["unresolved", "--kind", "direct"]).await);
    assert!(listed.contains(&id) && listed.contains("internal_error"), "{listed}");
    let json = run(&database.url, &["unresolved", "--json"]).await;
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json[0]["job_id"], *id);
    assert_eq!((&json[0]["state"], &json[0]["sends"]), (&"failure".into(), &1.into()));

    let resolve =
        |fact: &'static str| ["resolve".to_owned(), id.clone(), fact.to_owned(), "--note=the ledger has none".into()];
    for _ in 0..2 {
        let said = run(&database.url, &resolve("--not-executed").each_ref().map(String::as_str)).await;
        assert!(said.status.success(), "{said:?}");
        assert_eq!(out(&said), format!("{id} was not executed\n"));
    }
    assert_eq!(told(&database, &id).await, "no operator true lost; it was not executed, says an operator");
    let got = out(&run(&database.url, &["get", &id]).await);
    assert!(got.contains("executed: no"), "{got}");
    let listed = out(&run(&database.url, &["unresolved"]).await);
    assert!(listed.starts_with("there is none"), "{listed}");

    database.execute(&format!("select tidegate.respond('1', id => '{id}')")).await;
    let said = run(&database.url, &resolve("--not-executed").each_ref().map(String::as_str)).await;
    assert_eq!(said.status.code(), Some(1));
    assert!(err(&said).contains("executed is yes, and is believed"), "{}", err(&said));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_settle_itself_has_ended_is_not_late_and_leaves_the_rest_of_its_claim() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    database.execute("select tidegate.submit_batch('direct', '{1,2,3}')").await;
    let first = session.claim("tx", 1).await.remove(0).lease;
    let held = session.claim("tx", 2).await;
    let settle = |leases: &str, refs: &str| {
        format!("select req_status from tidegate_internal.settle_receipt({leases}, {refs}) as s(id, req_status)")
    };
    session.texts(&settle(&format!("array['{first}'::tidegate.lease]"), "array['r']")).await;
    // The reference is in use, and the other lease is a late one.
    let both = format!("array['{}', '{first}']::tidegate.lease[]", held[0].lease);
    assert_eq!(session.texts(&settle(&both, "array['r', null]")).await, ["failure"]);
    sound(&database).await;
    let last = format!("array['{}'::tidegate.lease]", held[1].lease);
    assert_eq!(session.texts(&settle(&last, "array['s']")).await, ["receipt_received"]);
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_and_status_say_what_is_not_known_and_who_knows_it() {
    let database = TestDatabase::unlimited().await;
    let (id, _) = lost(&database).await;
    let explain = format!(
        "select reason || ': ' || regexp_replace(sentence, '[0-9]{{4}}-.*', 'T') from tidegate.explain('{id}') offset 1"
    );
    assert_eq!(
        database.value(&explain).await,
        "unresolved: it may have been executed: 0 searches for its receipt found no answer, the next is at T"
    );
    let status = run(&database.url, &["status"]).await;
    assert!(
        out(&status).contains("\ndirect: 1 requests may have been executed (`tidegate unresolved`)\n"),
        "{}",
        out(&status)
    );
    database.execute(&format!("select tidegate.respond('1', id => '{id}')")).await;
    assert_eq!(database.value(&explain).await, "resolved: it was executed: known since T");
    let status = run(&database.url, &["status", "--json"]).await;
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["unresolved"], serde_json::json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settle_that_comes_twice_tells_nothing_the_second_time() {
    let refused = r#"array['{"code": "http_422", "message": "no"}'::jsonb]"#;
    for settle in [
        format!("tidegate_internal.settle_rejected(array[$l], {refused})"),
        "tidegate_internal.settle_retry(array[$l], null, may_have_left => '{false}')".to_owned(),
    ] {
        let database = TestDatabase::unlimited().await;
        // Two in one claim, so that the claim lists both as long as it holds one.
        let mut session = Session::open(&database).await;
        for key in ["k", "other"] {
            session.text(&format!("select id from tidegate.submit('direct', '1', '{key}')")).await;
        }
        let id = database.value("select min(id::text) from tidegate.request").await;
        // The first send may have been executed; the second is settled twice, and the request ends unresolved.
        session.claim_for("tx", 2, "10 ms").await;
        crate::support::race::expire_leases(&database, "tx").await;
        let lease = session.claim("tx", 2).await.into_iter().find(|held| held.lease.contains(&id));
        let settle = settle.replace("$l", &format!("'{}'::tidegate.lease", lease.unwrap().lease));
        database.execute(&format!("select {settle}")).await;
        database.execute(&format!("select tidegate.fail_request('{id}', 'lost')")).await;
        let executed =
            format!("select tidegate.executed(r) || r.tx_unsent from tidegate.request as r where id = '{id}'");
        assert_eq!(database.value(&executed).await, "unknown1", "{settle}");
        database.execute(&format!("select {settle}")).await;
        assert_eq!(database.value(&executed).await, "unknown1", "{settle}");
        sound(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_settle_outweighs_an_operator() {
    let database = TestDatabase::unlimited().await;
    let (id, lease) = lost(&database).await;
    database
        .execute(&format!(
            "select tidegate.resolve('{id}', 'no', 'asked');
             select tidegate_internal.settle_receipt(array[{lease}], responses => array['1'::jsonb])"
        ))
        .await;
    assert_eq!(told(&database, &id).await, "yes response false lost; it was executed");
    assert_eq!(database.value("select contradicted_by ->> 'note' from tidegate.outcome").await, "asked");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_response_shows_that_a_refused_request_was_executed() {
    let refuse = r#"select tidegate_internal.settle_rejected(array[c.lease], array['{"code": "http_422", "message": "no"}'::jsonb])
        from tidegate.claim_tx('tx', 'w', 1, '1 minute') as c"#;
    for early in [true, false] {
        let database = TestDatabase::unlimited().await;
        let id = database.value("select id from tidegate.submit('direct', '1', 'k')").await;
        let respond = format!("select tidegate.respond('1', id => '{id}')");
        for call in if early { [&*respond, refuse] } else { [refuse, &*respond] } {
            database.execute(call).await;
        }
        assert_eq!(told(&database, &id).await, "yes response false no; it was executed");
        let again = "select outcome from tidegate.submit('direct', '1', 'k')";
        assert_eq!(database.value(again).await, "replayed");
        sound(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_retryable_that_was_submitted_again_or_repeats_another() {
    let database = TestDatabase::unlimited().await;
    let (first, _) = lost(&database).await;
    let second = database.value("select unnest(new_ids) from tidegate.redrive(may_repeat => true)").await;
    database.execute(&format!("select tidegate.resolve('{first}', 'no')")).await;
    assert_eq!(told(&database, &first).await, "no operator false lost; it was not executed, says an operator");
    database.execute(&format!("select tidegate.cancel('{second}')")).await;
    assert_eq!(
        database
            .value(&format!(
                "select concat_ws(' ', error ->> 'retryable', error ->> 'message') from tidegate.request where id = '{second}'"
            ))
            .await,
        "false cancelled before it was sent; what it repeats may have been executed"
    );
}
