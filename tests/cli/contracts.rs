//! Whether `tidegate contract` and `tidegate audit` print their findings and return them in the exit status.

use std::path::Path;

use serde_json::Value;

use crate::{
    cli::commands::{err, out, run},
    support::TestDatabase,
};

fn write(directory: &Path, text: &str) -> String {
    let file = directory.join("contract.json");
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_built_in_contract_passes_on_a_fresh_database() {
    let database = TestDatabase::empty().await;
    for command in [&["migrate"][..], &["init", "--example", "relayer"]] {
        let ran = run(&database.url, command).await;
        assert!(ran.status.success(), "{}", err(&ran));
    }

    let kept = run(&database.url, &["contract", "check"]).await;
    assert_eq!(kept.status.code(), Some(0), "{}{}", out(&kept), err(&kept));
    let shown = out(&kept);
    assert!(shown.starts_with(" holds"), "{shown}");
    assert!(shown.contains("2245250 ms"), "{shown}");
    assert!(shown.contains("W_retry_le 2699000 ms"), "{shown}");
    assert!(shown.trim_end().ends_with("all 44 hold"), "{shown}");

    // The output of `show` is a contract.
    let shown = run(&database.url, &["contract", "show"]).await;
    let directory = tempfile::tempdir().unwrap();
    let file = write(directory.path(), &out(&shown));
    let kept = run(&database.url, &["contract", "check", &file, "--json"]).await;
    assert_eq!(kept.status.code(), Some(0), "{}", err(&kept));
    let rows: Value = serde_json::from_slice(&kept.stdout).unwrap();
    assert_eq!(rows.as_array().unwrap().len(), 44);
    assert_eq!(rows[0]["type"], "timeout_upper_bound");
    assert_eq!(rows[0]["observed"], "2245250 ms");
    assert_eq!(rows[0]["holds"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_violation_is_shown_with_figures_and_by_the_exit_status() {
    let database = TestDatabase::new().await.with_short_policies().await;
    let directory = tempfile::tempdir().unwrap();
    let file = write(
        directory.path(),
        r#"[{"type": "timeout_upper_bound", "kind": "direct", "W_retry_le": "58 s"},
            {"type": "idempotency", "kind": "direct", "window": "24 hours"}]"#,
    );

    let violated = run(&database.url, &["contract", "check", &file]).await;
    assert_eq!(violated.status.code(), Some(3), "{}", err(&violated));
    let shown = out(&violated);
    let line: Vec<_> = shown.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(
        line[..8].join(" "),
        "NO 1 direct tx timeout_upper_bound 58500 ms W_retry_le",
        "{shown}"
    );
    assert!(shown.contains("W_retry_le 58000 ms"), "{shown}");
    assert!(shown.trim_end().ends_with("1 of 2 do not hold"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_contract_that_cannot_be_read_is_an_error_that_says_where() {
    let database = TestDatabase::new().await;
    let directory = tempfile::tempdir().unwrap();
    for (text, reason) in [
        ("[{\"type\":\n oops}]", "is not JSON: expected value at line 2"),
        ("", "is not JSON"),
        ("{}", "JSON array with at least one assertion"),
        (
            r#"[{"type": "semantics", "sem": "at_least_once"}, {"type": "uptime"}]"#,
            "assertion 2: there is no type \"uptime\"; a type is one of timeout_upper_bound",
        ),
        ("[\"\\u0000\"]", "cannot store this value"),
    ] {
        let file = write(directory.path(), text);
        let ran = run(&database.url, &["contract", "check", &file]).await;
        assert_eq!(ran.status.code(), Some(1), "{text}");
        assert!(err(&ran).contains(reason), "{text}: {}", err(&ran));
    }
    let missing = directory.path().join("missing.json");
    let ran = run(&database.url, &["contract", "check", missing.to_str().unwrap()]).await;
    assert_eq!(ran.status.code(), Some(1));
    assert!(err(&ran).contains("cannot read the contract"), "{}", err(&ran));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_life_is_printed_as_a_timeline_and_judged_by_the_exit_status() {
    let database = TestDatabase::unlimited().await;
    let id = database.request_in("direct", "completed").await.to_string();

    let sound = run(&database.url, &["audit", "replay", &id]).await;
    assert_eq!(sound.status.code(), Some(0), "{}", err(&sound));
    let shown = out(&sound);
    assert!(shown.starts_with(&id), "{shown}");
    for words in [
        "(entry) → processing",
        "processing → tx_in_flight",
        "by policy version 1: 38 attempts of 10000 ms",
        "receipt_received → completed",
        "(W_retry 2245250 ms)",
        "nothing is wrong",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }

    database
        .execute(&format!(
            "insert into tidegate.stored_event
             select request_id, 2, from_status, to_status, at, attempt, 'released' from tidegate.request_event
             where request_id = '{id}' and transition_no = 2"
        ))
        .await;
    let wrong = run(&database.url, &["audit", "replay", &id]).await;
    assert_eq!(wrong.status.code(), Some(3), "{}", out(&wrong));
    assert!(
        out(&wrong).contains("WRONG: processing → tx_in_flight by released is no step of flow direct"),
        "{}",
        out(&wrong)
    );
    let wrong = run(&database.url, &["audit", "replay", &id, "--json"]).await;
    assert_eq!(wrong.status.code(), Some(3));
    let audit: Value = serde_json::from_slice(&wrong.stdout).unwrap();
    assert_eq!(audit["sound"], false);
    assert_eq!(audit["job_id"], id.as_str());
    assert_eq!(audit["steps"][0]["cause"], "submitted");

    let missing = "00000000-0000-7000-8000-000000000000";
    let unknown = run(&database.url, &["audit", "replay", missing]).await;
    assert_eq!(unknown.status.code(), Some(1));
    assert!(
        err(&unknown).contains(&format!("there is no request {missing}")),
        "{}",
        err(&unknown)
    );
}
