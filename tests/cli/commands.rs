//! The command line as a person meets it: real processes.

use std::process::{Output, Stdio};

use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::TcpListener,
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

#[tokio::test(flavor = "multi_thread")]
async fn a_port_in_use_is_named() {
    let database = TestDatabase::new().await;
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap().to_string();

    let output = run(&database.url, &["serve", "--listen", &address]).await;

    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains(&format!("{address} is in use")), "{}", err(&output));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_serves_until_sigterm() {
    let database = TestDatabase::new().await;
    let (mut node, url) = serve(&database.url, &[]).await;

    let ready = reqwest::get(format!("{url}/readyz")).await.unwrap();
    assert_eq!(ready.status(), 200);

    let pid = nix::unistd::Pid::from_raw(i32::try_from(node.id().unwrap()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert!(node.wait().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_a_reader_of_its_log_and_output_serves_until_sigterm() {
    let closed = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        Stdio::from(writer)
    };
    let database = TestDatabase::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let mut node = tidegate(&database.url);
    node.args(["serve", "--listen", &address]).env("RUST_LOG", "debug");
    let mut node = node.stdout(closed()).stderr(closed()).spawn().unwrap();

    crate::support::eventually("it is ready", || async {
        let ready = reqwest::get(format!("http://{address}/readyz")).await;
        ready.is_ok_and(|ready| ready.status() == 200)
    })
    .await;
    assert!(node.try_wait().unwrap().is_none());

    let pid = nix::unistd::Pid::from_raw(i32::try_from(node.id().unwrap()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    let ended = tokio::time::timeout(std::time::Duration::from_secs(30), node.wait()).await;
    assert!(ended.unwrap().unwrap().success());
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
async fn a_long_poll_at_one_node_ends_when_the_request_is_cancelled_at_another() {
    let database = TestDatabase::unlimited().await;
    let (_one, one) = serve(&database.url, &["--wait-max", "45"]).await;
    // The URL to listen on has no server: the node does everything else.
    let (_deaf, deaf) = serve(&database.url, &["--listen-database-url", NO_SERVER]).await;
    let client = reqwest::Client::new();

    for (waits_at, cancels_at, applied) in [(&one, &deaf, "wait=45"), (&deaf, &one, "wait=60")] {
        let id = database.submit("direct").await;
        let path = format!("/v1/direct/{id}");
        let waiting = client.get(format!("{waits_at}{path}")).header("prefer", "wait=600").send();
        let waiting = tokio::spawn(waiting);
        crate::support::eventually("the node queries it", || async {
            database
                .number(
                    "select count(*) from pg_stat_activity
                     where datname = current_database() and query like '%tidegate.moved_since(%'
                       and query not like '%pg_stat_activity%'",
                )
                .await
                > 0
        })
        .await;
        let cancelled = client.delete(format!("{cancels_at}{path}")).send().await;
        assert_eq!(cancelled.unwrap().status(), 200);
        let answered = waiting.await.unwrap().unwrap();
        assert_eq!(answered.status(), 200);
        assert_eq!(answered.headers()["preference-applied"], applied);
    }

    let refused = run(&database.url, &["serve", "--listen", "127.0.0.1:0", "--listen-database-url", "nonsense"]).await;
    assert!(!refused.status.success());
    assert!(err(&refused).contains("--listen-database-url"), "{}", err(&refused));
}

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
