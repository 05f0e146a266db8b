//! Real worker processes against a real database: killed, stopped, refused.
#![allow(missing_docs, clippy::unwrap_used, unreachable_pub, reason = "tests")]

#[path = "../../tests/support/mod.rs"]
mod support;

#[path = "processes/answers.rs"]
mod answers;
#[path = "processes/asynchronous.rs"]
mod asynchronous;
#[path = "processes/breaker.rs"]
mod breaker;
#[path = "processes/closed_logs.rs"]
mod closed_logs;
#[path = "processes/commands.rs"]
mod commands;
#[path = "processes/credentials.rs"]
mod credentials;
#[path = "processes/proxies.rs"]
mod proxies;
#[path = "processes/timeouts.rs"]
mod timeouts;
#[path = "processes/traces.rs"]
mod traces;

use std::{collections::BTreeMap, fs::File, path::PathBuf, process::Stdio};

use serde_json::Value;
use support::{TestDatabase, eventually};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate-worker"));
    command.args(arguments).env_remove("RUST_LOG");
    command.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
    command
}

fn spawn(database: &TestDatabase, arguments: &[&str]) -> Child {
    command(arguments).env("DATABASE_URL", &database.url).spawn().unwrap()
}

/// A worker with its own simulated downstream.
fn simulate(database: &TestDatabase, name: &str, options: &[&str]) -> Child {
    let arguments = ["simulate", "--name", name, "--lease", "5s", "--grace", "5s"];
    spawn(database, &[&arguments, options].concat())
}

/// A worker whose log goes to a file.
struct Logged {
    process: Child,
    log: PathBuf,
    // Removed with the value.
    _folder: tempfile::TempDir,
}

impl Logged {
    fn start(database: &TestDatabase, arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut command = command(arguments);
        command.env("DATABASE_URL", &database.url);
        let process = command.stderr(File::create(&log).unwrap()).spawn().unwrap();
        Self { process, log, _folder: folder }
    }

    /// The lines of its log that contain `part`.
    fn lines(&self, part: &str) -> Vec<String> {
        let log = std::fs::read_to_string(&self.log).unwrap();
        log.lines().filter(|line| line.contains(part)).map(str::to_owned).collect()
    }
}

/// Serves `router`, and returns its base URL.
async fn serve(router: axum::Router) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

/// The number of rows of `from`.
async fn count(database: &TestDatabase, from: &str) -> i64 {
    database.number(&format!("select count(*) from {from}")).await
}

/// Waits until `from` has `expected` rows.
async fn until(database: &TestDatabase, what: &str, from: &str, expected: i64) {
    eventually(what, || async { count(database, from).await == expected }).await;
}

/// A database with neither kinds nor queues.
async fn without_kinds() -> TestDatabase {
    let database = TestDatabase::uninitialised().await;
    database.execute("delete from tidegate.kind; delete from tidegate.queue").await;
    database
}

async fn invariants_hold(database: &TestDatabase) {
    let violations = database.violations().await;
    assert_eq!(violations, Vec::<String>::new());
}

/// Stops a worker, which ends without an error.
async fn stop(mut worker: Child) {
    let pid = nix::unistd::Pid::from_raw(i32::try_from(worker.id().unwrap()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert!(worker.wait().await.unwrap().success());
}

/// Starts a process, and returns the rest of its first line of output after `prefix`.
async fn first_line(mut command: Command, prefix: &str) -> (Child, String) {
    let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(process.stdout.take().unwrap()).lines();
    let line = output.next_line().await.unwrap().unwrap();
    (process, line.strip_prefix(prefix).unwrap().to_owned())
}

/// A simulated downstream in its own process, and its event log.
struct Downstream {
    // Killed with the value.
    _process: Child,
    address: String,
    log: tempfile::NamedTempFile,
}

impl Downstream {
    async fn start(options: &[&str]) -> Self {
        let log = tempfile::NamedTempFile::new().unwrap();
        let path = log.path().to_str().unwrap();
        let arguments = ["downstream", "--listen", "127.0.0.1:0", "--event-log", path];
        let command = command(&[&arguments, options].concat());
        let (_process, address) = first_line(command, "listening on ").await;
        Self { _process, address, log }
    }

    /// A worker that sends to it.
    fn worker(&self, database: &TestDatabase, name: &str) -> Child {
        let url = format!("{}/send/{{kind}}", self.address);
        let arguments = "http --queue tx --answer envelope --lease 5s --concurrency 8".split(' ');
        let arguments: Vec<_> = arguments.chain(["--name", name, "--send-url", &url]).collect();
        spawn(database, &arguments)
    }

    /// How often it saw `event`, by request.
    fn seen(&self, event: &str) -> BTreeMap<String, u32> {
        let mut seen = BTreeMap::new();
        for line in std::fs::read_to_string(self.log.path()).unwrap().lines() {
            // The last line may be half written.
            let Ok(line) = serde_json::from_str::<Value>(line) else {
                continue;
            };
            if line["event"] == event {
                let id = line["request_id"].as_str().unwrap().to_owned();
                *seen.entry(id).or_default() += 1;
            }
        }
        seen
    }
}

async fn all_completed(database: &TestDatabase) {
    let others = "tidegate.request where req_status <> 'completed'";
    until(database, "every request completes", others, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_a_killed_worker_are_sent_by_another() {
    let database = TestDatabase::unlimited().await;
    for _ in 0..20 {
        database.submit("direct").await;
    }
    let mut doomed = simulate(&database, "doomed", &["--send-latency", "constant:1h"]);
    let held = "tidegate.request where req_status = 'tx_in_flight' and worker = 'doomed'";
    until(&database, "it holds every request", held, 20).await;

    doomed.kill().await.unwrap();
    let other = simulate(&database, "other", &[]);

    all_completed(&database).await;
    let recovered = "tidegate.request_event where cause = 'recovered'";
    assert_eq!(count(&database, recovered).await, 20);
    invariants_hold(&database).await;
    stop(other).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_at_most_once_request_is_not_sent_again_after_its_worker_was_killed() {
    let database = TestDatabase::unlimited().await;
    database
        .execute("update tidegate.policy set semantics = 'at_most_once' where kind = 'direct' and stage = 'tx'")
        .await;
    let downstream = Downstream::start(&["--send-latency", "constant:20ms"]).await;
    for _ in 0..200 {
        database.submit("direct").await;
    }
    let mut workers: Vec<_> = (0..3).map(|_| downstream.worker(&database, "doomed")).collect();

    let ended = "tidegate.request where req_status in ('completed', 'failure')";
    for killed in 0..6 {
        // A send has left and is not settled.
        eventually("a send has left", || async {
            let settled = count(&database, ended).await;
            downstream.seen("taken").len() as i64 > settled
        })
        .await;
        let doomed = &mut workers[killed % 3];
        doomed.kill().await.unwrap();
        *doomed = downstream.worker(&database, "next");
    }
    until(&database, "every request ends", ended, 200).await;

    let sends = downstream.seen("send");
    assert!(sends.values().all(|sends| *sends == 1), "{sends:?}");
    let unknown = database
        .column("select id::text from tidegate.request where req_status = 'failure' and error ->> 'code' = 'outcome_unknown'")
        .await;
    let completed = database.column("select id::text from tidegate.request where req_status = 'completed'").await;
    assert!(!unknown.is_empty());
    assert_eq!(unknown.len() + completed.len(), 200);
    assert!(completed.iter().all(|id| sends.contains_key(id)));
    invariants_hold(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_waits_for_its_next_attempt_outlives_its_worker() {
    let database = TestDatabase::unlimited().await;
    database
        .execute("update tidegate.policy set attempts = 2, base_ms = 60000, cap_ms = 60000, jitter_ms = 0 where stage = 'tx'")
        .await;
    let id = database.submit("direct").await;
    let mut doomed = simulate(&database, "doomed", &["--send-error-rate", "100%"]);
    let waits = "pgmq.q_tx where vt > now() + interval '50 seconds'";
    until(&database, "it waits for its next attempt", waits, 1).await;

    doomed.kill().await.unwrap();
    assert_eq!(database.status(id).await, "processing");
    assert_eq!(count(&database, waits).await, 1);
    // A minute later.
    database.execute("update pgmq.q_tx set vt = clock_timestamp()").await;
    let _other = simulate(&database, "other", &[]);

    all_completed(&database).await;
    let causes = ["submitted", "claimed", "send_retried", "claimed", "receipt"];
    assert_eq!(database.causes(id).await, causes);
    let sender = "select format('%s %s', worker, tx_attempt) from tidegate.request";
    assert_eq!(database.text(sender).await.unwrap(), "other 2");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_worker_holds_no_request() {
    let database = TestDatabase::new().await;
    database.execute("update tidegate.queue set per_seconds = 5 where name = 'tx'").await;
    for _ in 0..30 {
        database.submit("direct").await;
    }
    let worker = simulate(&database, "leaving", &["--send-latency", "constant:50ms"]);
    let completed = "tidegate.request where req_status = 'completed'";
    eventually("it works", || async { count(&database, completed).await > 0 }).await;

    stop(worker).await;

    for (from, rows) in [
        ("tidegate.request where req_status = 'tx_in_flight'", 0),
        ("tidegate.leased_request", 0),
        ("tidegate.worker where name = 'leaving' and stopped_at is not null", 1),
    ] {
        assert_eq!(count(&database, from).await, rows, "{from}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_without_named_queues_drains_those_of_its_kinds() {
    let database = without_kinds().await;
    for statement in ["payout', 'direct", "report', 'decrypt", "other', 'direct"] {
        database.execute(&format!("select tidegate.kind_add('{statement}')")).await;
    }
    for kind in ["payout", "report", "other"] {
        database.submit(kind).await;
    }
    let worker = simulate(&database, "any", &["--kind", "payout:direct", "--kind", "report:decrypt"]);

    let others = "tidegate.request where req_status <> 'completed'";
    until(&database, "the requests of its kinds complete", others, 1).await;
    stop(worker).await;
    assert_eq!(count(&database, "tidegate.request where kind = 'other'").await, 1);
    assert_eq!(
        database.text("select array_to_string(queues, ' ') from tidegate.worker where name = 'any'").await,
        Some("payout report report_readiness".to_owned())
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_serves_metrics_at_the_given_address() {
    let database = TestDatabase::unlimited().await;
    database.submit("direct").await;
    database.execute("select tidegate.kind_add('report', 'decrypt')").await;
    let mut command = command(&["simulate", "--kind", "report:decrypt", "--metrics-listen", "127.0.0.1:0"]);
    command.env("DATABASE_URL", &database.url);
    let (worker, address) = first_line(command, "metrics on ").await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();

    eventually("its receipt is counted", || async {
        let answer = client.get(&address).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        let text = answer.text().await.unwrap();
        // Of four queues.
        assert!(text.contains("tidegate_database_connections_max 12\n"), "{text}");
        text.contains("tidegate_worker_settled_total{queue=\"tx\",outcome=\"receipt\"} 1\n")
    })
    .await;

    stop(worker).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_cannot_start_prints_what_to_do() {
    let empty = TestDatabase::empty().await;
    let ready = TestDatabase::new().await;
    let no_kinds = without_kinds().await;
    ready.execute("update tidegate.policy set semantics = 'exactly_once' where kind = 'direct' and stage = 'tx'").await;
    for (url, arguments, word) in [
        ("postgres://user@127.0.0.1:1/nowhere", "simulate", "cannot be reached"),
        (&empty.url, "simulate", "tidegate migrate"),
        (&ready.url, "simulate", "kind \"direct\" has exactly_once"),
        (&ready.url, "simulate --queue nope", "there is no queue \"nope\""),
        (
            &ready.url,
            "http --kind payuot --send-url http://127.0.0.1:1/",
            "kind \"payuot\" has no queue for a tx stage: register the kind",
        ),
        (
            &ready.url,
            "http --queue tx --send-url payuot=http://127.0.0.1:1/",
            "kind \"payuot\" has no queue for a tx stage",
        ),
        (
            &ready.url,
            "http --check-url direct=http://127.0.0.1:1/",
            "kind \"direct\" has no queue for a readiness stage",
        ),
        (&ready.url, "simulate --kind payuot:direct", "kind \"payuot\" has no queue"),
        (&no_kinds.url, "http --send-url http://127.0.0.1:1/", "name it with --kind"),
    ] {
        let mut command = command(&arguments.split(' ').collect::<Vec<_>>());
        let output = command.env("DATABASE_URL", url).output().await.unwrap();
        let output_text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        assert!(output_text.contains(word), "{arguments:?} prints\n{output_text}");
        assert!(!output_text.contains("panicked"), "{output_text}");
    }
}

/// The whole of it: API node, downstream, three workers, one killed, one stopped, a gate that closes and opens again.
#[tokio::test(flavor = "multi_thread")]
async fn the_demo_holds() {
    let database = TestDatabase::empty().await;
    let tidegate = PathBuf::from(env!("CARGO_BIN_EXE_tidegate-worker")).with_file_name("tidegate");
    assert!(tidegate.exists(), "build the workspace: {}", tidegate.display());

    let output = Command::new(tidegate)
        .args(["demo", "--requests", "120"])
        .env("DATABASE_URL", &database.url)
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();

    let output_text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{output_text}\n{errors}");
    for word in ["gate tx: TOO_MANY_REQUESTS at depth ", "gate tx: ACCEPTING_REQUESTS at depth ", "Everything holds."] {
        assert!(output_text.contains(word), "{word} is not in\n{output_text}");
    }
}
