//! Does `explain` tell the true reason why a request is where it is?

use serde_json::Value;
use tidegate::request::RequestId;

use crate::{
    cli::commands::{err, out, run},
    support::{
        TestDatabase,
        race::{Session, expire_leases, receipt, settle, submit_many},
    },
};

/// The codes of all reasons, the decisive one first.
async fn reasons(session: &mut Session, id: RequestId) -> Vec<String> {
    session.texts(&format!("select reason from tidegate.explain('{id}')")).await
}

async fn sentence(session: &mut Session, id: RequestId) -> String {
    session.text(&format!("select sentence from tidegate.explain('{id}') limit 1")).await
}

async fn with_workers(database: &TestDatabase) -> Session {
    database.execute("select tidegate.worker_seen('w', '{readiness,tx}', '{readiness,tx}')").await;
    Session::open(database).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_request_names_its_position_and_the_first_one_is_next() {
    let database = TestDatabase::unlimited().await;
    let mut session = with_workers(&database).await;
    let ids = submit_many(&database, "direct", 5).await;

    assert_eq!(reasons(&mut session, ids[0]).await, ["next"]);
    assert_eq!(reasons(&mut session, ids[4]).await, ["waiting_behind"]);
    assert!(
        sentence(&mut session, ids[4]).await.starts_with("waiting behind 4 others in tx"),
        "{}",
        sentence(&mut session, ids[4]).await
    );
    assert_eq!(session.text(&format!("select figures ->> 'position' from tidegate.explain('{}')", ids[4])).await, "4");
    database.execute("delete from tidegate.worker").await;
    assert_eq!(reasons(&mut session, ids[0]).await, ["no_worker", "next"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rate_and_the_concurrency_are_named_when_they_are_used_up() {
    let database = TestDatabase::unlimited().await;
    let mut session = with_workers(&database).await;
    let sends = submit_many(&database, "direct", 3).await;
    let checks = submit_many(&database, "public_decrypt", 3).await;
    // So slow that the test is over before the next send.
    database
        .execute(
            "update tidegate.queue set per_seconds = 0.001 where name = 'tx';
             update tidegate.queue set max_concurrency = 1 where name = 'readiness'",
        )
        .await;
    assert_eq!(session.claim("tx", 5).await.len(), 1);
    assert_eq!(session.claim("readiness", 5).await.len(), 1);

    assert_eq!(reasons(&mut session, sends[1]).await, ["rate_limited", "next"]);
    assert_eq!(reasons(&mut session, sends[2]).await, ["rate_limited", "waiting_behind"]);
    assert!(
        sentence(&mut session, sends[1])
            .await
            .starts_with("rate limited: queue tx sends 0.001/s, and the next is claimed in")
    );
    assert_eq!(reasons(&mut session, checks[2]).await, ["concurrency_full", "waiting_behind"]);
    assert_eq!(
        sentence(&mut session, checks[1]).await,
        "concurrency full: 1 of 1 checks of queue readiness are under way"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_is_paused_or_stopped_says_so() {
    let database = TestDatabase::unlimited().await;
    let mut session = with_workers(&database).await;
    let id = database.submit("direct").await;
    let check = database.submit("public_decrypt").await;
    database
        .execute("select tidegate.pause('tx'); update tidegate.queue set max_concurrency = 0 where name = 'readiness'")
        .await;

    assert_eq!(reasons(&mut session, id).await, ["paused", "next"]);
    assert_eq!(sentence(&mut session, id).await, "queue tx is paused: `tidegate resume tx`");
    assert_eq!(reasons(&mut session, check).await, ["stopped", "next"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_request_names_its_worker_and_its_lease_also_when_the_lease_has_run_out() {
    let database = TestDatabase::unlimited().await;
    let mut session = with_workers(&database).await;
    let send = database.submit("direct").await;
    let check = database.submit("public_decrypt").await;
    session.claim("tx", 1).await;
    session.claim("readiness", 1).await;

    for (id, what) in [(send, "send"), (check, "check")] {
        assert_eq!(reasons(&mut session, id).await, ["held"]);
        let said = sentence(&mut session, id).await;
        let begins = format!("held by worker-{} for its {what} (attempt 1), under a lease until 2", session.pid);
        assert!(said.starts_with(&begins), "{said}");
    }

    expire_leases(&database, "tx").await;
    expire_leases(&database, "readiness").await;
    for id in [send, check] {
        assert_eq!(reasons(&mut session, id).await, ["lost", "next"]);
    }
    assert!(
        sentence(&mut session, send)
            .await
            .ends_with("(attempt 1): the next claim takes it, and searches for its receipt first")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn backoffs_and_delayed_starts_are_told_apart() {
    let database = TestDatabase::unlimited().await;
    let mut session = with_workers(&database).await;
    let retried = database.submit("direct").await;
    let held = session.claim("tx", 1).await;
    session
        .texts(&settle(
            "settle_retry",
            &held,
            r#"array['{"code": "http_503", "message": "busy", "retryable": true}'::jsonb], array['1 minute'::interval]"#,
        ))
        .await;
    let delayed = session
        .text("select id from tidegate.submit('direct', '{}', not_before => now() + interval '10 minutes')")
        .await;

    assert_eq!(reasons(&mut session, retried).await, ["backing_off"]);
    let said = sentence(&mut session, retried).await;
    assert!(said.starts_with("backing off after attempt 1 (http_503: busy): its next send is due at"), "{said}");
    assert_eq!(reasons(&mut session, delayed.parse().unwrap()).await, ["not_before"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_names_no_queue_or_one_of_the_wrong_stage_has_lost_its_place() {
    let database = TestDatabase::unlimited().await;
    let mut session = with_workers(&database).await;
    let id = database.submit("direct").await;
    for (queue, words) in [("null", "any queue"), ("'nowhere'", "queue nowhere"), ("'readiness'", "queue readiness")] {
        database.past_triggers(&format!("update tidegate.request set queue = {queue} where id = '{id}'")).await;

        assert_eq!(reasons(&mut session, id).await, ["no_message"], "{queue}");
        assert_eq!(
            sentence(&mut session, id).await,
            format!("it is processing, and has no message in {words}: `tidegate recover` makes it again")
        );
        let said = run(&database.url, &["explain", &id.to_string()]).await;
        assert!(said.status.success(), "{queue}: {}", err(&said));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_send_is_told_its_end_where_the_next_claim_ends_it() {
    let database = TestDatabase::unlimited().await;
    let mut session = with_workers(&database).await;
    let once = database.submit("direct").await;
    let last = database.submit("input_proof").await;
    database
        .execute("update tidegate.policy set semantics = 'at_most_once' where kind = 'direct' and stage = 'tx'")
        .await;
    session.claim("tx", 2).await;
    database.past_triggers(&format!("update tidegate.request set tx_attempt = 1000 where id = '{last}'")).await;
    expire_leases(&database, "tx").await;

    for (id, words) in [
        (once, "(attempt 1): the next claim ends it as outcome_unknown, because it may have been sent"),
        (last, "(attempt 1000): the next claim ends it, because its attempts are used up"),
    ] {
        assert_eq!(reasons(&mut session, id).await[0], "lost");
        let said = sentence(&mut session, id).await;
        assert!(said.ends_with(words), "{said}");
    }
    // A paused queue is not claimed from.
    database.execute("select tidegate.pause('tx')").await;
    assert_eq!(reasons(&mut session, once).await, ["paused", "lost", "next"]);

    database.execute("select tidegate.pause('tx', false)").await;
    session.claim("tx", 2).await;
    assert_eq!(reasons(&mut session, once).await, ["failure", "unresolved"]);
    assert_eq!(reasons(&mut session, last).await, ["failure", "unresolved"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_of_before_the_clock_was_set_back_is_lost_and_no_backoff() {
    let database = TestDatabase::unlimited().await;
    let mut session = with_workers(&database).await;
    let id = database.submit("direct").await;
    session.claim("tx", 1).await;
    database.execute("update tidegate.claim set until = until + interval '1 hour'").await;

    assert_eq!(reasons(&mut session, id).await, ["lost", "next"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backoff_under_an_open_breaker_has_both_reasons() {
    let database = TestDatabase::unlimited().await;
    let mut session = with_workers(&database).await;
    let id = database.submit("direct").await;
    let delayed = session
        .text("select id from tidegate.submit('direct', '{}', not_before => now() + interval '10 minutes')")
        .await;
    let held = session.claim("tx", 1).await;
    session
        .texts(&settle(
            "settle_retry",
            &held,
            r#"array['{"code": "http_503", "message": "busy", "retryable": true}'::jsonb], array['1 minute'::interval]"#,
        ))
        .await;
    database
        .execute(
            "update tidegate.policy set breaker_error_rate = 0.5 where kind = 'direct';
             update tidegate.breaker set state = 'open', open_until = now() + interval '5 seconds' where kind = 'direct'",
        )
        .await;

    assert_eq!(reasons(&mut session, id).await, ["breaker_open", "backing_off"]);
    assert_eq!(reasons(&mut session, delayed.parse().unwrap()).await, ["breaker_open", "not_before"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_breaker_says_until_when() {
    let database = TestDatabase::unlimited().await;
    let mut session = with_workers(&database).await;
    let id = database.submit("direct").await;
    database
        .execute(
            "update tidegate.policy set breaker_error_rate = 0.5 where kind = 'direct';
             update tidegate.breaker set state = 'open', open_until = '2100-01-01 12:00:07Z' where kind = 'direct'",
        )
        .await;
    session.execute("set time zone 'UTC'").await;

    assert_eq!(reasons(&mut session, id).await, ["breaker_open", "next"]);
    assert_eq!(sentence(&mut session, id).await, "the tx breaker of direct is open until 2100-01-01 12:00:07+00:00");
    // Snoozed by a claim that met the breaker, it is still the breaker that counts.
    assert!(session.claim("tx", 1).await.is_empty());
    assert_eq!(reasons(&mut session, id).await[0], "breaker_open");

    database.execute("update tidegate.breaker set state = 'half_open', open_until = null, probes = 1").await;
    assert_eq!(reasons(&mut session, id).await[0], "breaker_half_open");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sent_request_awaits_its_response_and_an_ended_one_names_its_end() {
    let database = TestDatabase::unlimited().await;
    let mut session = with_workers(&database).await;
    let awaiting = receipt(&database, "user_decrypt", Some("ref-1")).await;
    database.execute("select tidegate.respond('1', reference => 'ref-1', part => 'a')").await;
    let cancelled = database.submit("direct").await;
    database.execute(&format!("select tidegate.cancel('{cancelled}')")).await;
    let completed = RequestId(database.request_in("direct", "completed").await);
    let timed_out = RequestId(database.request_in("public_decrypt", "timed_out").await);

    assert_eq!(reasons(&mut session, awaiting).await, ["awaiting_response"]);
    let said = sentence(&mut session, awaiting).await;
    assert!(
        said.starts_with("awaiting its response until 2") && said.ends_with("as ref-1; 1 of 3 shares are here"),
        "{said}"
    );
    assert_eq!(reasons(&mut session, completed).await, ["completed"]);
    assert_eq!(reasons(&mut session, timed_out).await, ["timed_out"]);
    assert_eq!(reasons(&mut session, cancelled).await, ["failure"]);
    let said = sentence(&mut session, cancelled).await;
    assert!(said.ends_with("(cancelled): cancelled: cancelled before it was sent"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_messages_passed_deadlines_and_unknown_ids_are_told() {
    let database = TestDatabase::unlimited().await;
    let mut session = with_workers(&database).await;
    let lost = database.submit("direct").await;
    database.execute("delete from pgmq.q_tx").await;
    let late = database.submit("public_decrypt").await;
    database
        .execute(&format!("update tidegate.request set readiness_deadline_at = clock_timestamp() where id = '{late}'"))
        .await;

    assert_eq!(reasons(&mut session, lost).await, ["no_message"]);
    assert_eq!(reasons(&mut session, late).await, ["overdue", "next"]);
    let (state, message) =
        session.attempt("select * from tidegate.explain('00000000-0000-7000-8000-000000000000')").await.unwrap_err();
    assert_eq!(state, "TG006");
    assert!(message.starts_with("there is no request"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_says_it_to_people_and_to_programs() {
    let database = TestDatabase::unlimited().await;
    let id = database.submit("direct").await.to_string();
    database.execute("select tidegate.pause('tx')").await;

    let said = run(&database.url, &["explain", &id]).await;
    assert!(said.status.success(), "{}", err(&said));
    assert!(out(&said).starts_with(&format!("direct {id} is processing\n  queue tx is paused")), "{}", out(&said));
    assert!(out(&said).contains("ask again in 300 s"), "{}", out(&said));
    let said = run(&database.url, &["explain", &id, "--json"]).await;
    let said: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(said["state"], "processing");
    assert_eq!(said["reasons"][0]["reason"], "paused");
    assert_eq!(said["reasons"][0]["figures"]["queue"], "tx");

    let unknown = "00000000-0000-7000-8000-000000000000";
    let said = run(&database.url, &["explain", unknown]).await;
    assert_eq!(said.status.code(), Some(1));
    assert!(err(&said).contains("there is no request"), "{}", err(&said));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_the_downstream_forges_no_line_and_commands_no_terminal() {
    let database = TestDatabase::unlimited().await;
    let id = database.submit("direct").await;
    let mut session = Session::open(&database).await;
    let held = session.claim("tx", 1).await;
    let error = r#"array['{"code": "no", "message": "a\nask again in 0 s\u001b[2J", "retryable": false}'::jsonb]"#;
    session.execute(&settle("settle_rejected", &held, error)).await;

    for command in ["explain", "get", "audit replay"] {
        let words: Vec<_> = command.split(' ').map(str::to_owned).chain([id.to_string()]).collect();
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let said = out(&run(&database.url, &words).await);
        assert!(!said.contains('\u{1b}'), "{command}: {said}");
        assert!(!said.lines().any(|line| line.starts_with("ask again")), "{command}: {said}");
    }
    let told = out(&run(&database.url, &["get", &id.to_string()]).await);
    assert!(told.contains(r"no: a\nask again in 0 s\u{1b}[2J"), "{told}");
}
