//! Whether `tidegate kind` makes and lists kinds.

use serde_json::{Value, json};

use crate::{
    cli::commands::{err, out, run, tidegate},
    support::{TestDatabase, eventually},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_is_added_with_its_limits_and_listed() {
    let database = TestDatabase::new().await;

    let added = run(&database.url, &["kind", "add", "payout", "--flow", "direct", "--rate", "90/min"]).await;
    assert!(added.status.success(), "{}", err(&added));
    assert!(out(&added).contains("per_seconds"), "{}", out(&added));
    let again = run(&database.url, &["kind", "add", "payout", "--flow", "direct"]).await;
    assert!(out(&again).contains("nothing changed: kind \"payout\" exists"), "{}", out(&again));
    let report = ["kind", "add", "report", "--flow", "decrypt", "--threshold", "3", "--json"];
    let queues = ["--concurrency", "9", "--tx-queue", "payout", "--readiness-queue", "checks"];
    let added = run(&database.url, &[&report[..], &queues].concat()).await;
    let made: Vec<Value> = serde_json::from_slice(&added.stdout).unwrap();
    assert_eq!(made[0], json!({"subject": "queue checks", "name": "stage", "value": "readiness"}));

    let listed = run(&database.url, &["kind", "list"]).await;
    let lines: Vec<_> =
        out(&listed).lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(lines[0], "kind flow readiness queue tx queue threshold per second concurrency paused");
    for line in ["payout direct - payout 1 1.5 - -", "report decrypt checks payout 3 1.5 9 -"] {
        assert!(lines.iter().any(|listed| listed == line), "{line}: {lines:?}");
    }
    let listed = run(&database.url, &["kind", "list", "--json"]).await;
    let listed: Vec<Value> = serde_json::from_slice(&listed.stdout).unwrap();
    assert!(
        listed.contains(&json!({
            "name": "report", "flow": "decrypt", "readiness_queue": "checks", "tx_queue": "payout",
            "response_threshold": 3, "per_seconds": 1.5, "max_concurrency": 9, "paused": false
        })),
        "{listed:?}"
    );
    let submitted = run(&database.url, &["submit", "report", "{}"]).await;
    assert!(submitted.status.success(), "{}", err(&submitted));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_cannot_be_is_refused_with_a_reason() {
    let database = TestDatabase::new().await;
    for (arguments, words) in [
        (&["--flow", "direct", "--rate", "fast"][..], "not a number"),
        (&["--flow", "sideways"], "[possible values: direct, verdict, checked,"),
        (&["--flow", "direct", "--concurrency", "5"], "max_concurrency limits readiness checks"),
        (&["--flow", "direct", "--tx-queue", "No"], "queue name is lower snake case"),
    ] {
        let refused = run(&database.url, &[&["kind", "add", "p"], arguments].concat()).await;
        assert!(!refused.status.success(), "{arguments:?}");
        assert!(err(&refused).contains(words), "{arguments:?}: {}", err(&refused));
    }
    let refused = run(&database.url, &["kind", "add", "direct", "--flow", "proof"]).await;
    assert!(err(&refused).contains("exists with flow direct"), "{}", err(&refused));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_is_drained_and_removed_while_a_caller_is_refused() {
    let database = TestDatabase::new().await;
    let add = ["kind", "add", "payout", "--flow", "direct"];
    assert!(run(&database.url, &add).await.status.success());
    let id = database.submit("payout").await;
    let remove = ["kind", "remove", "payout", "--drain", "--requests", "--queues"];

    let refused = run(&database.url, &remove[..3]).await;
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        err(&refused).contains("1 live requests") && err(&refused).contains("tidegate cancel --kind payout"),
        "{}",
        err(&refused)
    );
    let removing = tokio::spawn({
        let mut removing = tidegate(&database.url);
        removing.args(remove);
        async move { removing.output().await.unwrap() }
    });
    eventually("new requests are refused", || async {
        let closed = "select count(*) from tidegate.gate where name = 'kind payout' and state = 'too_many_requests'";
        database.number(closed).await == 1
    })
    .await;
    database.execute(&format!("select tidegate.cancel('{id}')")).await;

    let removed = removing.await.unwrap();
    assert_eq!(out(&removed), "removed kind payout\nremoved queue payout\n", "{}", err(&removed));
    assert!(err(&removed).contains("waits for 1 live ones"), "{}", err(&removed));
    let again = run(&database.url, &remove).await;
    assert!(err(&again).contains("there is no kind \"payout\""), "{}", err(&again));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_is_moved_to_a_queue_of_its_own_and_told_that_no_worker_drains_it() {
    let database = TestDatabase::new().await;
    let add = ["queue", "add", "bulk", "--stage", "tx", "--rate", "90/min", "--high", "50"];

    let added = run(&database.url, &add).await;
    assert!(out(&added).contains("1.5") && out(&added).contains("50/25"), "{}{}", out(&added), err(&added));
    let again = run(&database.url, &add).await;
    assert!(out(&again).contains("queue \"bulk\" exists"), "{}", out(&again));
    let moved = run(&database.url, &["config", "set", "direct.tx_queue", "bulk"]).await;
    assert!(err(&moved).contains("no live worker drains bulk: restart the workers"), "{}", err(&moved));
    let back = "select tidegate.worker_seen('w', '{tx}', '{tx}')";
    database.execute(back).await;
    let moved = run(&database.url, &["config", "set", "direct.tx_queue", "tx"]).await;
    assert_eq!(err(&moved), "");
    let removed = run(&database.url, &["queue", "remove", "bulk"]).await;
    assert_eq!(out(&removed), "removed queue bulk\n", "{}", err(&removed));
    let unknown = run(&database.url, &["queue", "remove", "bulk"]).await;
    assert!(err(&unknown).contains("there is no queue \"bulk\""), "{}", err(&unknown));
    let usage = run(&database.url, &["queue", "add", "bulk", "--stage", "send"]).await;
    assert_eq!(usage.status.code(), Some(2));
}
