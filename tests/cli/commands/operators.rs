//! What operators do while everything runs: recover, fail a request, change limits.

use serde_json::Value;

use super::{err, out, run};
use crate::support::TestDatabase;

#[tokio::test(flavor = "multi_thread")]
async fn recover_says_what_it_found_and_whether_anything_was_wrong() {
    let database = TestDatabase::unlimited().await;
    let id = database.submit("direct").await;
    let fine = run(&database.url, &["recover"]).await;
    assert_eq!(fine.status.code(), Some(0), "{}", out(&fine));

    database.execute("select * from pgmq.purge_queue('tx')").await;
    let dry = run(&database.url, &["recover", "--dry-run"]).await;
    assert_eq!(dry.status.code(), Some(3));
    assert!(out(&dry).contains("1 without a message, would be rebuilt"), "{}", out(&dry));
    assert!(out(&dry).contains(&id.to_string()), "{}", out(&dry));
    assert_eq!(database.number("select count(*) from pgmq.q_tx").await, 0);

    let done = run(&database.url, &["recover", "--json"]).await;
    assert_eq!(done.status.code(), Some(3));
    let summary: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(summary["rebuilt"], 1);
    assert_eq!(database.number("select count(*) from pgmq.q_tx").await, 1);
    assert_eq!(run(&database.url, &["recover"]).await.status.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn recovering_everything_needs_force_while_workers_hold_something() {
    let database = TestDatabase::unlimited().await;
    let id = database.submit("direct").await;
    database.execute("select * from tidegate.claim_tx('tx', 'alive', 1, '1 minute')").await;

    let refused = run(&database.url, &["recover", "--all"]).await;
    assert_eq!(refused.status.code(), Some(1));
    assert!(err(&refused).contains("--force"), "{}", err(&refused));
    assert_eq!(database.status(id).await, "tx_in_flight");

    let forced = run(&database.url, &["recover", "--all", "--force"]).await;
    assert_eq!(forced.status.code(), Some(3), "{}", err(&forced));
    assert_eq!(database.status(id).await, "processing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_request_is_failed_with_a_reason_and_one_that_has_ended_is_not() {
    let database = TestDatabase::unlimited().await;
    let id = database.request_in("direct", "tx_in_flight").await.to_string();
    let fail = ["fail", &id, "--reason", "the gateway has lost it"];

    let usage = run(&database.url, &fail[..2]).await;
    assert_eq!(usage.status.code(), Some(2), "without a reason");
    let failed = run(&database.url, &fail).await;
    assert!(failed.status.success(), "{}", err(&failed));
    assert!(out(&failed).contains("has failed: the gateway has lost it"), "{}", out(&failed));
    let got = run(&database.url, &["get", &id]).await;
    assert!(out(&got).starts_with("direct is failure since "), "{}", out(&got));
    assert!(
        out(&got).contains(
            " s after its submission; executed: unknown\ninternal_error: the gateway has lost it; it may have been executed: poll it, ask the downstream, or send it again under a new key"
        ),
        "{}",
        out(&got)
    );
    let user = nix::unistd::User::from_uid(nix::unistd::getuid()).unwrap().unwrap();
    let audit = run(&database.url, &["audit", "replay", &id]).await;
    assert!(out(&audit).contains(&format!("by hand, by {}", user.name)), "{}", out(&audit));

    let again = run(&database.url, &fail).await;
    assert_eq!(out(&again), out(&failed), "a repeated call");
    let other = run(&database.url, &["fail", &id, "--reason", "another"]).await;
    assert_eq!(other.status.code(), Some(1));
    assert!(err(&other).contains(&format!("request {id} is failure")), "{}", err(&other));
    let missing = "00000000-0000-7000-8000-000000000000";
    let unknown = run(&database.url, &["fail", missing, "--reason", "x"]).await;
    assert_eq!(unknown.status.code(), Some(1));
    assert!(err(&unknown).contains(&format!("there is no request {missing}")), "{}", err(&unknown));
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_change_while_everything_runs() {
    let database = TestDatabase::new().await;

    let changed = run(&database.url, &["config", "set", "tx.per_seconds", "25"]).await;
    assert!(out(&changed).contains("25"), "{}", out(&changed));
    let paused = run(&database.url, &["pause", "--all"]).await;
    assert!(out(&paused).contains("paused tx"), "{}", out(&paused));
    let again = run(&database.url, &["pause", "--all", "--json"]).await;
    assert_eq!(out(&again).trim(), "[]");
    let resumed = run(&database.url, &["resume", "tx"]).await;
    assert!(out(&resumed).contains("resumed tx"), "{}", out(&resumed));
    let kind = run(&database.url, &["pause", "--kind", "public-decrypt"]).await;
    assert_eq!(out(&kind), "paused public_decrypt\n", "{}", err(&kind));
    let again = run(&database.url, &["pause", "--kind", "public-decrypt"]).await;
    assert_eq!(out(&again), "nothing changed: already paused\n", "{}", err(&again));

    assert_eq!(
        database.text("select string_agg(name || paused || coalesce(per_seconds::text, '-'), ' ' order by name) from tidegate.queue").await,
        Some("readinesstrue- txfalse25".to_owned())
    );
}
