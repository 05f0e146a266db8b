//! The commands `init` and `serve`, as processes.

use std::{
    path::Path,
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, body::Bytes, routing::post};
use tidegate_fhevm::request::Family;
use tidegate_node::ConnectionOptions;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::TcpListener,
    process::{Child, Command},
};

use super::{
    node::{body, config_file},
    support::TestDatabase,
};

fn command(database: &TestDatabase, config: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate-fhevm"));
    command.args(arguments).arg("--config").arg(config);
    command.env("DATABASE_URL", &database.url).env("RUST_LOG", "warn");
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

async fn output(mut command: Command) -> (bool, String, String) {
    let output = command.output().await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

/// A node, and its addresses: that of the API and that of its figures.
async fn serve(database: &TestDatabase, config: &Path, variables: &[(&str, &str)]) -> (Child, [String; 2]) {
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"];
    let mut command = command(database, config, &arguments);
    command.envs(variables.iter().copied());
    let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let mut addresses = [const { String::new() }; 2];
    for (address, what) in addresses.iter_mut().zip(["listening on ", "metrics on "]) {
        let line = lines.next_line().await.unwrap().unwrap();
        *address = line.strip_prefix(what).unwrap().to_owned();
    }
    (process, addresses)
}

#[tokio::test]
async fn init_makes_what_is_missing_once_however_often_and_keeps_what_an_operator_has_set() {
    let database = TestDatabase::empty().await;
    let config = config_file("");
    let init = || output(command(&database, config.path(), &["init"]));

    let (first, second) = tokio::join!(init(), init());

    assert!(first.0 && second.0, "{first:?} {second:?}");
    let made = "made fhevm_input_proof, fhevm_public_decrypt, fhevm_user_decrypt\n";
    let mut said = [first.1.as_str(), second.1.as_str()];
    said.sort_unstable();
    assert_eq!(said, [made, "nothing changed: every kind is there\n"]);

    database.execute("select tidegate.config_set('fhevm_input_proof.per_seconds', '50')").await;
    assert!(init().await.0);
    for (name, value) in [
        ("fhevm_input_proof.per_seconds", "50"),
        ("fhevm_user_decrypt.per_seconds", "20"),
        ("fhevm_user_ready.max_concurrency", "250"),
        ("fhevm_public_ready.high_water", "10000"),
        ("fhevm_public_decrypt.low_water", "5000"),
        ("fhevm_input_proof_processing_seconds", "2"),
        ("fhevm_user_decrypt_processing_seconds", "6"),
        ("fhevm_user_decrypt.eta", "observed"),
        ("fhevm_user_decrypt.readiness_check_seconds", "4"),
        ("fhevm_public_decrypt.deadline", "01:00:00"),
        ("fhevm_public_decrypt.readiness_timeout", "00:30:00"),
        ("fhevm_public_decrypt.tx.dedup_window", "365 days"),
        ("fhevm_user_decrypt.tx.dedup_window", "7 days"),
        ("fhevm_user_decrypt.readiness.attempts", "75"),
        ("fhevm_input_proof.tx.attempts", "11"),
        ("fhevm_input_proof.tx.timeout_ms", "300000"),
        ("min_seconds", "1"),
        ("max_seconds", "300"),
        ("safety_margin", "0.2"),
    ] {
        let setting = database.store.config_get(Some(name)).await.unwrap().remove(0);
        assert_eq!(setting.value.text.as_deref(), Some(value), "{name}");
    }
}

#[tokio::test]
async fn serve_says_what_is_missing() {
    let database = TestDatabase::uninitialised().await;
    let config = config_file("");
    let (served, _, error) = output(command(&database, config.path(), &["serve", "--listen", "127.0.0.1:0"])).await;
    assert!(!served && error.contains("tidegate-fhevm init"), "{error}");

    let unknown = config_file("cors_origin = []");
    let (served, _, error) = output(command(&database, unknown.path(), &["serve"])).await;
    assert!(!served && error.contains("cors_origin"), "{error}");

    let (served, _, error) = output(command(&database, config.path(), &["serve", "--listen", "192.0.2.1:3000"])).await;
    assert!(!served && error.contains("--behind-an-edge"), "{error}");
}

#[tokio::test]
async fn serve_answers_until_it_is_stopped() {
    let database = super::node::database().await;
    let config = config_file("");
    let (mut process, [url, metrics]) = serve(&database, config.path(), &[]).await;
    let family = Family::PublicDecrypt;
    let call = reqwest::Client::new().post(format!("{url}{}", family.path())).json(&body(family));

    let answer = super::node::answer("POST", family.path(), call).await;

    assert_eq!(answer.status, 202);
    let figures = reqwest::get(&metrics).await.unwrap().text().await.unwrap();
    // The engine's, and those of the chain, whose endpoint is away.
    for name in ["tidegate_queue_depth", "evm_endpoint_errors_total"] {
        assert!(figures.contains(name), "{name} is not in {figures}");
    }
    let health = metrics.replace("/metrics", "/health");
    assert_eq!(reqwest::get(health).await.unwrap().status(), 200);
    assert!(stop(&mut process).await.success());
}

/// Asks a process to stop, and waits until it has.
async fn stop(process: &mut Child) -> ExitStatus {
    let pid = nix::unistd::Pid::from_raw(i32::try_from(process.id().unwrap()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    tokio::time::timeout(Duration::from_secs(30), process.wait()).await.unwrap().unwrap()
}

/// A collector of traces, which keeps what it is sent; its URL.
async fn collector() -> (String, Arc<Mutex<Vec<u8>>>) {
    let collected = Arc::new(Mutex::new(Vec::new()));
    let keeps = Arc::clone(&collected);
    let collect = move |body: Bytes| async move { keeps.lock().unwrap().extend_from_slice(&body) };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().route("/v1/traces", post(collect));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (url, collected)
}

#[tokio::test]
async fn a_submission_is_a_span_in_its_callers_trace_and_its_request_goes_on_below_it() {
    let database = super::node::database().await;
    let config = config_file("");
    let (collector, collected) = collector().await;
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", collector.as_str()), ("OTEL_BSP_SCHEDULE_DELAY", "50")];
    let (mut process, [url, _]) = serve(&database, config.path(), &variables).await;
    let family = Family::PublicDecrypt;
    let caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let call = reqwest::Client::new().post(format!("{url}{}", family.path())).json(&body(family));

    assert_eq!(call.header("traceparent", caller).send().await.unwrap().status(), 202);

    let stored = database.text("select traceparent from tidegate.request").await.unwrap();
    assert!(stored.starts_with(&caller[..35]) && stored[36..52] != caller[36..52], "{stored}");
    assert!(stop(&mut process).await.success());
    let collected = collected.lock().unwrap().clone();
    let has = |part: &[u8]| collected.windows(part.len()).any(|window| window == part);
    // The ids of the span, of its trace and of the caller's span, its name and that of its program.
    for id in [&stored[3..35], &stored[36..52], &caller[36..52]] {
        let bytes: Vec<_> =
            (0..id.len()).step_by(2).map(|at| u8::from_str_radix(&id[at..at + 2], 16).unwrap()).collect();
        assert!(has(&bytes), "{id} is in no span");
    }
    assert!(has(b"POST /v2/public-decrypt") && has(b"tidegate-fhevm"));
}

#[tokio::test]
async fn serve_without_a_reader_of_its_log_answers_until_it_is_stopped() {
    let database = super::node::database().await;
    let config = config_file("");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = command(&database, config.path(), &["serve", "--listen", "127.0.0.1:0"]);
    command.env("RUST_LOG", "debug").stderr(writer).stdout(Stdio::piped());
    let mut process = command.spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let line = lines.next_line().await.unwrap().unwrap();
    let url = line.strip_prefix("listening on ").unwrap();
    assert_eq!(reqwest::get(format!("{url}/livez")).await.unwrap().status(), 200);

    assert!(stop(&mut process).await.success());
}

/// A page that encrypts is silent for twenty seconds. Common clients keep a connection for ninety: they close it first,
/// and no request meets the close.
#[test]
fn idle_connections_are_kept_longer_than_clients_keep_them() {
    assert!(ConnectionOptions::default().idle_timeout > Duration::from_secs(90));
}
