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
async fn the_contract_of_the_example_passes_on_a_fresh_database() {
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
    assert_eq!(rows[0]["kind"], "direct");
    assert_eq!(rows[0]["observed"], "2245250 ms");
    assert_eq!(rows[0]["holds"], true);

    // The usual contract of any kind; the kept one notices a change.
    let added = run(&database.url, &["kind", "add", "payout", "--flow", "direct"]).await;
    assert!(added.status.success(), "{}", err(&added));
    let kept = run(&database.url, &["contract", "check"]).await;
    assert!(out(&kept).trim_end().ends_with("all 53 hold"), "{}", out(&kept));
    let change = ["config", "set", "direct.tx.dedup_window", "2 days", "direct.retention", "2 days"];
    let changed = run(&database.url, &change).await;
    assert!(changed.status.success(), "{}", err(&changed));
    let violated = run(&database.url, &["contract", "check", &file]).await;
    assert_eq!(violated.status.code(), Some(3), "{}", out(&violated));
    let kept = run(&database.url, &["contract", "check"]).await;
    assert_eq!(kept.status.code(), Some(0), "{}", out(&kept));
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
    assert_eq!(line[..8].join(" "), "NO 1 direct tx timeout_upper_bound 58500 ms W_retry_le", "{shown}");
    assert!(shown.contains("W_retry_le 58000 ms"), "{shown}");
    assert!(shown.trim_end().ends_with("1 of 2 do not hold"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recorded_baseline_is_shown_and_bounds_may_be_relative_to_it() {
    let database = TestDatabase::new().await.with_short_policies().await;
    let directory = tempfile::tempdir().unwrap();
    let file = write(
        directory.path(),
        r#"[{"type": "timeout_upper_bound", "kind": "direct", "W_retry_le": {"baseline_times": 1.1}},
            {"type": "sli", "kind": "direct", "retry_rate_le": {"baseline_times": 2, "plus": 0.05}},
            {"type": "semantics", "kind": "direct", "sem": "at_least_once"}]"#,
    );
    let calls = async |retries: i32| {
        database
            .execute(&format!(
                "delete from tidegate.call_sample;
                 insert into tidegate.call_sample
                   (kind, stage, at, requests, calls, failures, timeouts, retries, slow, hedges, latency_ms)
                 values ('direct', 'tx', clock_timestamp(), 100, 100 + {retries}, 0, 0, {retries}, 0, 0, '{{}}')"
            ))
            .await;
    };
    let check = async |arguments: &[&str]| {
        let ran = run(&database.url, &[&["contract", "check", file.as_str()], arguments].concat()).await;
        assert_eq!(err(&ran), "");
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines: Vec<_> = out(&ran).lines().map(words).collect();
        (ran.status.code(), lines)
    };

    // What is measured needs a baseline, and what is not holds as ever.
    let (code, shown) = check(&[]).await;
    assert_eq!(code, Some(3));
    assert!(shown[0].contains("bound baseline detail"), "{shown:#?}");
    assert!(
        shown[1].starts_with(
            "NO 1 direct tx timeout_upper_bound 58500 ms W_retry_le 1.1 · baseline - there was no baseline"
        ),
        "{shown:#?}"
    );
    assert!(
        shown[2]
            .starts_with("yes 2 direct tx sli retry_rate 0 retry_rate_le 2 · baseline + 0.05 - nothing was measured"),
        "{shown:#?}"
    );

    calls(20).await;
    // The first record has none to compare with, the second one has that of the first.
    let (code, shown) = check(&["--record"]).await;
    assert_eq!((code, shown[5].as_str()), (Some(3), "observed values in the baseline: 2"));
    let (code, shown) = check(&["--record"]).await;
    assert_eq!(code, Some(0), "{shown:#?}");
    for (line, words) in [
        (1, "58500 ms W_retry_le 64350 ms = 1.1 · 58500 58500 "),
        (2, "retry_rate 0.2 retry_rate_le 0.45 = 2 · 0.2 + 0.05 0.2 20 calls"),
        (3, "at_least_once sem at_least_once - no contradiction"),
        (5, "observed values in the baseline: 2"),
        (7, "all 3 hold"),
    ] {
        let words = words.replace("20 calls", "120 calls");
        assert!(shown[line].contains(words.trim_end()), "{line}: {words}: {shown:#?}");
    }
    let user = nix::unistd::User::from_uid(nix::unistd::getuid()).unwrap().unwrap();
    assert_eq!(
        database
            .column("select concat_ws(' ', kind, stage, member, on_behalf_of) from tidegate.contract_baseline order by member")
            .await,
        [
            format!("direct tx W_retry_le {}", user.name),
            format!("direct tx retry_rate_le {}", user.name)
        ]
    );

    // Later checks compare with it, and leave it alone.
    calls(45).await;
    assert_eq!(check(&[]).await.0, Some(0));
    calls(46).await;
    database.execute("update tidegate.policy set attempts = 6 where kind = 'direct'").await;
    let (code, shown) = check(&[]).await;
    assert_eq!(code, Some(3));
    assert!(
        shown[1].starts_with("NO 1 direct tx timeout_upper_bound 76750 ms W_retry_le 64350 ms = 1.1 · 58500 58500"),
        "{shown:#?}"
    );
    assert!(shown[2].starts_with("NO 2 direct tx sli retry_rate 0.46 "), "{shown:#?}");
    assert!(shown.last().unwrap().starts_with("2 of 3"), "{shown:#?}");

    // What is not measured now leaves the baseline of before.
    database.execute("delete from tidegate.call_sample").await;
    assert_eq!(check(&["--record"]).await.0, Some(3));
    let ran = run(&database.url, &["contract", "check", &file, "--json"]).await;
    let rows: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(rows[0]["baseline"], 76750.0);
    assert_eq!((&rows[1]["baseline"], &rows[1]["value"]), (&0.2.into(), &Value::Null));
    assert_eq!((&rows[1]["member"], &rows[1]["holds"]), (&"retry_rate_le".into(), &true.into()));

    // It goes with its policy.
    database.execute("insert into tidegate.kind (name, flow, tx_queue) values ('brief', 'direct', 'tx')").await;
    database
        .execute(
            r#"select tidegate.contract_record('[{"type": "timeout_upper_bound", "kind": "brief", "W_retry_le": 1}]')"#,
        )
        .await;
    database.execute("delete from tidegate.kind where name = 'brief'").await;
    assert_eq!(database.number("select count(*) from tidegate.contract_baseline").await, 2);
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

    let retried = database.submit("direct").await;
    database
        .execute(
            r#"select tidegate_internal.settle_retry(array[c.lease], array['{"code": "http_503", "message": "busy"}'::jsonb])
               from tidegate.claim_tx('tx', 'w', 1, '1 minute') as c"#,
        )
        .await;
    let sound = run(&database.url, &["audit", "replay", &retried.0.to_string()]).await;
    assert!(out(&sound).contains("send_retried: http_503"), "{}", out(&sound));

    database
        .execute(&format!(
            "insert into tidegate.stored_event
             select request_id, 2, from_status, to_status, at, attempt, 'released' from tidegate.request_event
             where request_id = '{id}' and transition_no = 2"
        ))
        .await;
    let wrong = run(&database.url, &["audit", "replay", &id]).await;
    assert_eq!(wrong.status.code(), Some(3), "{}", out(&wrong));
    assert!(out(&wrong).contains("WRONG: history_with_an_illegal_step: each step"), "{}", out(&wrong));
    let wrong = run(&database.url, &["audit", "replay", &id, "--json"]).await;
    assert_eq!(wrong.status.code(), Some(3));
    let audit: Value = serde_json::from_slice(&wrong.stdout).unwrap();
    assert_eq!(audit["sound"], false);
    assert_eq!(audit["job_id"], id.as_str());
    assert_eq!(audit["steps"][0]["cause"], "submitted");

    let missing = "00000000-0000-7000-8000-000000000000";
    let unknown = run(&database.url, &["audit", "replay", missing]).await;
    assert_eq!(unknown.status.code(), Some(1));
    assert!(err(&unknown).contains(&format!("there is no request {missing}")), "{}", err(&unknown));
}

#[tokio::test(flavor = "multi_thread")]
async fn all_lives_of_a_kind_are_audited_page_by_page_with_a_summary() {
    let database = TestDatabase::unlimited().await;
    let mut ids = Vec::new();
    for status in ["completed", "failure", "tx_in_flight", "completed", "receipt_received"] {
        ids.push(database.request_in("direct", status).await.to_string());
        database.request_in("input_proof", "failure").await;
    }
    let audit = async |arguments: &[&str]| run(&database.url, &[&["audit", "replay"], arguments].concat()).await;
    let summary = |output: &std::process::Output| out(output).lines().last().unwrap().to_owned();

    let sound = audit(&["--kind", "direct", "--batch", "2"]).await;
    assert_eq!(sound.status.code(), Some(0), "{}{}", out(&sound), err(&sound));
    assert_eq!(out(&sound), "5 lives, 3 of them ended: 0 with 0 findings\n");
    let every = audit(&["--since", "1h"]).await;
    assert_eq!(summary(&every), "10 lives, 8 of them ended: 0 with 0 findings");
    // Since the third of them.
    let since = database
        .value(&format!(
            "select to_char(submitted_at at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')
             from tidegate.request where id = '{}'",
            ids[2]
        ))
        .await;
    let later = audit(&["--kind", "direct", "--since", &since, "--batch", "1"]).await;
    assert_eq!(summary(&later), "3 lives, 1 of them ended: 0 with 0 findings");

    // Wrong on the first and on the last page.
    for id in [&ids[0], &ids[4]] {
        database
            .past_triggers(&format!(
                "update tidegate.request set tx_attempt = tx_attempt + 1 where id = '{id}';
                 insert into tidegate.stored_event
                 select request_id, 2, from_status, to_status, at, attempt, 'released' from tidegate.request_event
                 where request_id = '{id}' and transition_no = 2"
            ))
            .await;
    }
    let wrong = audit(&["--kind", "direct", "--batch", "2"]).await;
    assert_eq!(wrong.status.code(), Some(3), "{}", err(&wrong));
    let shown = out(&wrong);
    let lives: Vec<_> = shown.lines().filter(|line| !line.starts_with(' ')).collect();
    assert_eq!(lives.len(), 3, "{shown}");
    assert_eq!(lives[0], format!("{} direct completed", ids[0]));
    assert_eq!(lives[1], format!("{} direct receipt_received", ids[4]));
    assert!(lives[2].starts_with("5 lives, 3 of them ended: 2 with "), "{shown}");
    assert_eq!(shown.matches("  WRONG: 2: history_with_an_illegal_step: ").count(), 2, "{shown}");
    // The same as one by one.
    let one = audit(&[&ids[0]]).await;
    let findings = shown.lines().skip(1).take_while(|line| line.starts_with("  WRONG: "));
    assert_eq!(out(&one).matches("WRONG: ").count(), findings.count(), "{shown}");

    let json = audit(&["--kind", "direct", "--json", "--batch", "1"]).await;
    assert_eq!(json.status.code(), Some(3));
    let lines: Vec<Value> = out(&json).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!((&lines[0]["job_id"], &lines[0]["state"]), (&ids[0].as_str().into(), &"completed".into()));
    assert_eq!((&lines[2]["lives"], &lines[2]["wrong"]), (&5.into(), &2.into()));

    for (arguments, code, words) in [
        (&["--kind", "nope"][..], 1, "there is no kind \"nope\""),
        (&["--since", "soon"], 2, "neither a time such as"),
        (&[], 2, "required"),
        (&[&ids[0], "--since", "1h"], 2, "cannot be used with"),
    ] {
        let refused = audit(arguments).await;
        assert_eq!(refused.status.code(), Some(code), "{arguments:?}");
        assert!(err(&refused).contains(words), "{arguments:?}: {}", err(&refused));
    }
}
