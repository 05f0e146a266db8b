//! Whether `tidegate gate` shows, sets, forces and lists gates, for queues and for quotas.

use serde_json::Value;

use crate::{
    cli::commands::{err, out, run},
    support::{TestDatabase, race::submit_many},
};

/// The JSON output of a command that succeeds.
async fn json(database: &TestDatabase, arguments: &[&str]) -> Value {
    let ran = run(&database.url, &[arguments, &["--json"]].concat()).await;
    assert!(ran.status.success(), "{arguments:?}: {}", err(&ran));
    serde_json::from_slice(&ran.stdout).unwrap()
}

/// The lines of a command that succeeds, each with its words apart by one blank.
async fn lines(database: &TestDatabase, arguments: &[&str]) -> Vec<String> {
    let ran = run(&database.url, arguments).await;
    assert!(ran.status.success(), "{arguments:?}: {}", err(&ran));
    out(&ran).lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn gates_and_quotas_are_made_shown_and_removed() {
    let database = TestDatabase::new().await;
    submit_many(&database, "direct", 3).await;

    let marked = json(&database, &["gate", "set", "tx", "--high", "40", "--low", "20", "--mode", "soft"]).await;
    let gate = &marked[0];
    assert_eq!((&gate["high_water"], &gate["low_water"], &gate["mode"]), (&40.into(), &20.into(), &"soft".into()));
    lines(&database, &["gate", "set", "--kind", "direct", "--high", "9"]).await;
    let changed = lines(&database, &["gate", "set", "--submitter", "ann b", "--high", "4", "--low", "1"]).await;
    assert!(changed[1].starts_with("submitter ann b accepting by marks strict 0 4 1 20"), "{changed:?}");
    let again = lines(&database, &["gate", "set", "--kind", "direct", "--high", "9"]).await;
    assert!(again[0].starts_with("nothing changed"), "{again:?}");

    let all = lines(&database, &["gate"]).await;
    for (line, start) in all.iter().zip([
        "gate state held mode depth high water low water since",
        "readiness accepting by marks strict 0 ",
        "tx accepting by marks soft 3 40 20 ",
        "kind direct accepting by marks strict 3 9 4 ",
        "submitter ann b accepting ",
    ]) {
        assert!(line.starts_with(start), "{line}: {start}");
    }
    assert_eq!(all.len(), 5);

    for (removed, text) in [(true, "removed"), (false, "nothing changed")] {
        let lines = lines(&database, &["gate", "remove", "--submitter", "ann b"]).await;
        assert!(lines[0].starts_with(text), "{lines:?}");
        let again = json(&database, &["gate", "remove", "--kind", "direct"]).await;
        assert_eq!(again["removed"], removed);
    }
    assert_eq!(json(&database, &["gate"]).await.as_array().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_arguments_are_refused_with_a_reason() {
    let database = TestDatabase::new().await;
    for (arguments, words) in [
        (&["set", "nope", "--high", "4"][..], "no queue"),
        (&["set", "tx", "--high", "4"], "; the low mark is 500000; set it as well, with --low"),
        (&["set", "tx", "--low", "1000000"], "; the high mark is 1000000; set it as well, with --high"),
        (&["set", "tx", "--high", "4"], "low water is below high water"),
        (&["set", "tx"], "--high"),
        (&["set", "--high", "4"], "no gate is named"),
        (&["set", "--kind", "nope", "--high", "4"], "no kind"),
        (&["set", "--kind", "direct", "--low", "4"], "high_water"),
        (&["set", "--kind", "direct", "--high", "4", "--low", "4"], "low water is below high water"),
        (&["set", "tx", "--kind", "direct", "--high", "4"], "cannot be used with"),
        (&["remove", "tx"], "gate of a queue"),
        (&["close", "nope"], "no queue"),
        (&["close", "--kind", "direct"], "no gate"),
        (&["open"], "no gate is named"),
        (&["history", "nope"], "there is no gate \"nope\""),
        (&["history", "--kind", "direct"], "there is no gate"),
        (&["history", "--limit", "0"], "--limit"),
    ] {
        let refused = run(&database.url, &[&["gate"], arguments].concat()).await;
        assert!(!refused.status.success(), "{arguments:?}");
        assert!(err(&refused).contains(words), "{arguments:?}: {}", err(&refused));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_gates_are_listed_first_in_the_status_and_kept_in_the_history() {
    let database = TestDatabase::new().await;
    assert_eq!(lines(&database, &["gate", "history"]).await, ["no gate has closed yet"]);
    assert_eq!(lines(&database, &["gate", "history", "tx"]).await, ["this gate has not changed yet"]);
    lines(&database, &["gate", "set", "--kind", "direct", "--high", "2"]).await;
    submit_many(&database, "direct", 3).await;
    for (action, state) in [
        ("close", "too_many_requests by hand"),
        ("open", "accepting by hand"),
        ("release", "accepting by marks"),
        ("close", "too_many_requests by hand"),
    ] {
        let shown = lines(&database, &["gate", action, "tx"]).await;
        assert!(shown[1].starts_with(&format!("tx {state}")), "{shown:?}");
    }
    lines(&database, &["gate", "close", "--kind", "direct"]).await;
    lines(&database, &["gate", "release", "--kind", "direct"]).await;

    let status = lines(&database, &["status"]).await;
    assert!(status[0].starts_with("GATE CLOSED: tx, by hand since 20"), "{status:?}");
    assert!(status[0].ends_with("depth 3, until it is released"), "{status:?}");
    assert!(status[1].starts_with("GATE CLOSED: kind direct, by its marks since 20"), "{status:?}");
    assert!(status[1].ends_with("depth 3, opens at 1"), "{status:?}");
    let gates = &json(&database, &["status"]).await["gates"];
    assert_eq!(gates[2]["name"], "kind direct");

    let history = lines(&database, &["gate", "history", "--kind", "direct"]).await;
    assert_eq!(history[0], "when gate signal depth why lasted who");
    for (line, words) in history[1..].iter().zip([
        "kind direct TOO_MANY_REQUESTS 3 released",
        "kind direct TOO_MANY_REQUESTS 3 forced closed",
        "kind direct TOO_MANY_REQUESTS 3 high mark",
    ]) {
        assert!(line.contains(words), "{line}: {words}");
    }
    assert!(history[1].contains(" s so far "), "{history:?}");
    let latest = json(&database, &["gate", "history", "tx", "--limit", "2"]).await;
    assert_eq!(latest.as_array().unwrap().len(), 2);
    assert_eq!(
        (&latest[0]["cause"], &latest[0]["is_current"], &latest[0]["epoch"]),
        (&"forced closed".into(), &true.into(), &4.into())
    );
}
