//! The command line as a person meets it: real processes.

mod nodes;
mod operators;

use std::process::{Output, Stdio};

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
};

use crate::support::TestDatabase;

/// A port of loopback without a listener.
const NO_SERVER: &str = "postgres://user@127.0.0.1:1/nowhere";

pub fn tidegate(url: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.env("DATABASE_URL", url).env_remove("RUST_LOG").stdin(Stdio::null()).kill_on_drop(true);
    command
}

pub async fn run(url: &str, arguments: &[&str]) -> Output {
    tidegate(url).args(arguments).output().await.unwrap()
}

pub fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn help_names_every_command_and_says_how_to_begin() {
    let help = run(NO_SERVER, &["--help"]).await;

    assert!(help.status.success());
    for word in [
        "migrate",
        "init",
        "kind",
        "serve",
        "submit",
        "get",
        "recover",
        "redrive",
        "doctor",
        "explain",
        "fail",
        "status",
        "pause",
        "resume",
        "config",
        "key",
        "contract",
        "audit",
        "demo",
        "DATABASE_URL",
        "tidegate migrate",
    ] {
        assert!(out(&help).contains(word), "--help does not have {word}:\n{}", out(&help));
    }
    assert!(!out(&help).contains("keeper"), "{}", out(&help));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_is_set_up_and_a_request_goes_in_and_comes_out() {
    let database = TestDatabase::empty().await;

    let planned = run(&database.url, &["migrate", "--dry-run"]).await;
    assert!(out(&planned).contains("would apply"), "{}", out(&planned));
    assert_eq!(database.text("to_regclass('tidegate.request')").await, None);

    let migrated = run(&database.url, &["migrate"]).await;
    assert!(migrated.status.success(), "{}", err(&migrated));
    let again = run(&database.url, &["migrate"]).await;
    assert!(out(&again).contains("up to date"), "{}", out(&again));
    let again = run(&database.url, &["migrate", "--json"]).await;
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(again, serde_json::json!({ "migrations": [], "sql_applied": false }));

    let refused = run(&database.url, &["submit", "direct"]).await;
    assert!(!refused.status.success());
    assert!(err(&refused).contains("tidegate kind add"), "{}", err(&refused));

    let settings = run(&database.url, &["init"]).await;
    assert!(out(&settings).contains("event_retention") && !out(&settings).contains("direct"), "{}", out(&settings));
    assert_eq!(database.text("select count(*) from tidegate.kind, tidegate.queue").await.as_deref(), Some("0"));
    let unknown = run(&database.url, &["init", "--example", "relay"]).await;
    assert!(!unknown.status.success());
    assert!(err(&unknown).contains("relayer"), "{}", err(&unknown));
    let initialised = run(&database.url, &["init", "--example", "relayer"]).await;
    assert!(out(&initialised).contains("per_seconds"), "{}", out(&initialised));
    for again in [&["init"][..], &["init", "--example", "relayer"]] {
        let again = run(&database.url, again).await;
        assert!(out(&again).contains("nothing changed"), "{}", out(&again));
    }

    let quoted = run(&database.url, &["submit", "direct", "--dry-run"]).await;
    assert!(out(&quoted).contains("accepted, with 0 before it; ask again in 3 s"), "{}", out(&quoted));
    let submitted = run(&database.url, &["submit", "direct", r#"{"a":1}"#, "--json"]).await;
    assert!(submitted.status.success(), "{}", err(&submitted));
    let ticket: Value = serde_json::from_slice(&submitted.stdout).unwrap();
    assert_eq!(ticket["retry_after_seconds"], 3);

    let got = run(&database.url, &["get", ticket["job_id"].as_str().unwrap()]).await;
    assert!(out(&got).contains("direct is processing"), "{}", out(&got));

    let status = run(&database.url, &["status", "--json"]).await;
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["requests"][0]["requests"], 1);
    let status = run(&database.url, &["status"]).await;
    assert!(out(&status).contains("10/s"), "{}", out(&status));
}

#[tokio::test(flavor = "multi_thread")]
async fn several_requests_are_shown_in_the_order_asked_with_one_time_to_ask_again() {
    let database = TestDatabase::new().await;
    let mut ids = Vec::new();
    for _ in 0..30 {
        ids.push(database.submit("input_proof").await.to_string());
    }
    let get = ["get", ids[29].as_str(), &ids[0], "--json"];

    let shown = run(&database.url, &get).await;
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    assert_eq!(shown["requests"][0]["job_id"], *ids[29], "{shown}");
    assert_eq!(shown["requests"][0]["position"], 29);
    assert_eq!(shown["requests"][1]["job_id"], *ids[0]);
    // Position 29 at 10/s, with the margin: ⌈(2.9 + 2.1) × 1.2⌉.
    assert_eq!(shown["retry_after_seconds"], 6);

    database.execute(&format!("select tidegate.cancel('{}')", ids[29])).await;
    let text = out(&run(&database.url, &get[..3]).await);
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with(&format!("{}: input_proof is failure", ids[29])), "{text}");
    assert!(lines.contains(&"1 of 2 are under way; ask again in 3 s"), "{text}");
    database.execute(&format!("select tidegate.cancel('{}')", ids[0])).await;
    let text = out(&run(&database.url, &get[..3]).await);
    assert!(text.ends_with("all have ended\n"), "{text}");
    let none = "00000000-0000-7000-8000-000000000000";
    let unknown = run(&database.url, &["get", &ids[0], none]).await;
    assert_eq!(unknown.status.code(), Some(1));
    assert!(err(&unknown).contains(none) && out(&unknown).is_empty(), "{unknown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_with_a_callback_says_when_to_ask_again_and_so_does_its_replay() {
    let database = TestDatabase::new().await;
    database.execute("insert into tidegate.webhook_host (host) values ('hooks.example.com')").await;
    let submit =
        ["submit", "direct", "--callback-url", "https://hooks.example.com/done", "--idempotency-key", "once", "--json"];
    for outcome in ["accepted", "replayed"] {
        let submitted = run(&database.url, &submit).await;
        assert!(submitted.status.success(), "{}", err(&submitted));
        let ticket: Value = serde_json::from_slice(&submitted.stdout).unwrap();
        assert_eq!(ticket["outcome"], outcome);
        assert_eq!(ticket["position"], 0, "{ticket}");
        assert_eq!(ticket["retry_after_seconds"], 3, "{ticket}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_accepted_elsewhere_is_submitted_through_a_closed_gate() {
    let database = TestDatabase::new().await;
    database.execute("select tidegate.gate_force('tx', 'too_many_requests')").await;

    let refused = run(&database.url, &["submit", "direct"]).await;
    assert_eq!(refused.status.code(), Some(1));
    assert!(err(&refused).contains("the gate is closed"), "{}", err(&refused));
    let accepted = run(&database.url, &["submit", "direct", "--accepted", "--json"]).await;
    assert!(accepted.status.success(), "{}", err(&accepted));
    let ticket: Value = serde_json::from_slice(&accepted.stdout).unwrap();
    assert_eq!(ticket["outcome"], "accepted");
    assert_eq!(database.number("select count(*) from tidegate.request").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_migrations_at_once_both_succeed() {
    let database = TestDatabase::empty().await;

    let (one, other) = tokio::join!(run(&database.url, &["migrate"]), run(&database.url, &["migrate"]));

    assert!(one.status.success(), "{}", err(&one));
    assert!(other.status.success(), "{}", err(&other));
    assert_eq!(
        database.text("select string_agg(nspname, ',') from pg_namespace n where exists (select from pg_class where relnamespace = n.oid and relkind = 'r' and nspname = 'public')").await,
        None
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_of_another_version_is_not_migrated() {
    for another in [
        "insert into tidegate.refinery_schema_history values (99, 'later', '2026-11-01T00:00:00Z', '1')",
        "update tidegate.refinery_schema_history set checksum = 'of another text' where version = 1",
    ] {
        let database = TestDatabase::new().await;
        database.execute(another).await;
        for arguments in [&["migrate"][..], &["migrate", "--dry-run"]] {
            let refused = run(&database.url, arguments).await;
            assert!(!refused.status.success());
            let version = if another.contains("99") { 99 } else { 1 };
            let words =
                format!("migration {version} of schema tidegate in this database is of another version of the program");
            assert!(err(&refused).contains(&words), "{}", err(&refused));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_cannot_work_says_what_to_do() {
    let empty = TestDatabase::empty().await;
    let ready = TestDatabase::new().await;
    let missing = "00000000-0000-7000-8000-000000000000";
    for (url, arguments, word) in [
        (NO_SERVER, &["status"][..], "check the URL"),
        (NO_SERVER, &["migrate"], "cannot be reached"),
        (NO_SERVER, &["serve", "--listen", "127.0.0.1:0"], "check the URL"),
        ("nonsense", &["status"], "cannot be read"),
        (&empty.url, &["status"], "tidegate migrate"),
        (&empty.url, &["serve", "--listen", "127.0.0.1:0"], "tidegate migrate"),
        (&ready.url, &["submit", "nope"], "there is no kind \"nope\""),
        (&ready.url, &["submit", "direct", "{not json"], "not JSON"),
        (&ready.url, &["get", missing], "there is no request"),
        (&ready.url, &["pause", "nope"], "there is no queue"),
        (&ready.url, &["config", "set", "nope", "1"], "there is no setting"),
        (&ready.url, &["config", "set", "tx.per_seconds", "-1"], "queue per seconds is zero to a million"),
    ] {
        let output = run(url, arguments).await;
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(err(&output).contains(word), "{arguments:?} says\n{}", err(&output));
        assert!(!err(&output).contains("panicked"), "{arguments:?} says\n{}", err(&output));
    }
    let usage = run(&ready.url, &["get", "not-an-id"]).await;
    assert_eq!(usage.status.code(), Some(2));
}

/// A node of its own process, on loopback unless the options say where, and where it is. Its log is its stderr.
pub async fn serve(url: &str, options: &[&str]) -> (tokio::process::Child, String) {
    let mut command = tidegate(url);
    command.arg("serve").args(options);
    if !options.contains(&"--listen") {
        command.args(["--listen", "127.0.0.1:0"]);
    }
    let mut node = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(node.stdout.take().unwrap()).lines();
    let line = lines.next_line().await.unwrap().unwrap();
    let url = line.strip_prefix("listening on ").unwrap().to_owned();
    (node, url)
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_url_the_embedded_server_is_started_and_used() {
    let directory = tempfile::Builder::new()
        .prefix("tidegate-cli-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .tempdir()
        .unwrap();
    let run = async |arguments: &[&str]| {
        let output =
            tidegate("").env("TIDEGATE_POSTGRES_DIR", directory.path()).args(arguments).output().await.unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", err(&output));
        out(&output)
    };

    run(&["migrate"]).await;
    run(&["init", "--example", "relayer"]).await;
    let id = run(&["submit", "direct"]).await;
    assert!(run(&["get", id.trim()]).await.contains("processing"));

    let running = async || tokio::fs::try_exists(directory.path().join("data/postmaster.pid")).await.unwrap();
    crate::support::eventually("the keeper stops the server", || async { !running().await }).await;
}
