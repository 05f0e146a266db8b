//! Whether `tidegate kind` makes and lists kinds.

use serde_json::{Value, json};

use crate::{
    cli::commands::{err, out, run},
    support::TestDatabase,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_is_added_with_its_limits_and_listed() {
    let database = TestDatabase::new().await;

    let added = run(
        &database.url,
        &["kind", "add", "payout", "--flow", "direct", "--rate", "90/min"],
    )
    .await;
    assert!(added.status.success(), "{}", err(&added));
    assert!(out(&added).contains("per_seconds"), "{}", out(&added));
    let again = run(&database.url, &["kind", "add", "payout", "--flow", "direct"]).await;
    assert!(
        out(&again).contains("nothing changed: kind \"payout\" exists"),
        "{}",
        out(&again)
    );
    let report = [
        "kind",
        "add",
        "report",
        "--flow",
        "decrypt",
        "--threshold",
        "3",
        "--json",
    ];
    let queues = [
        "--concurrency",
        "9",
        "--tx-queue",
        "payout",
        "--readiness-queue",
        "checks",
    ];
    let added = run(&database.url, &[&report[..], &queues].concat()).await;
    let made: Vec<Value> = serde_json::from_slice(&added.stdout).unwrap();
    assert_eq!(
        made[0],
        json!({"subject": "queue checks", "name": "stage", "value": "readiness"})
    );

    let listed = run(&database.url, &["kind", "list"]).await;
    let lines: Vec<_> = out(&listed)
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        lines[0],
        "kind flow readiness queue tx queue threshold per second concurrency"
    );
    for line in ["payout direct - payout 1 1.5 -", "report decrypt checks payout 3 1.5 9"] {
        assert!(lines.iter().any(|listed| listed == line), "{line}: {lines:?}");
    }
    let listed = run(&database.url, &["kind", "list", "--json"]).await;
    let listed: Vec<Value> = serde_json::from_slice(&listed.stdout).unwrap();
    assert!(
        listed.contains(&json!({
            "name": "report", "flow": "decrypt", "readiness_queue": "checks", "tx_queue": "payout",
            "response_threshold": 3, "per_seconds": 1.5, "max_concurrency": 9
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
        (
            &["--flow", "direct", "--concurrency", "5"],
            "max_concurrency limits readiness checks",
        ),
        (
            &["--flow", "direct", "--tx-queue", "No"],
            "queue name is lower snake case",
        ),
    ] {
        let refused = run(&database.url, &[&["kind", "add", "p"], arguments].concat()).await;
        assert!(!refused.status.success(), "{arguments:?}");
        assert!(err(&refused).contains(words), "{arguments:?}: {}", err(&refused));
    }
    let refused = run(&database.url, &["kind", "add", "direct", "--flow", "proof"]).await;
    assert!(err(&refused).contains("exists with flow direct"), "{}", err(&refused));
}
