//! Do the examples print what they promise, each on a database that is not even migrated?

use std::{
    env,
    path::{Path, PathBuf},
    process::Stdio,
    sync::OnceLock,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use crate::support::TestDatabase;

/// The folder of the examples' programs. Cargo makes those that it has not made yet, unless `make test` just did.
fn programs() -> &'static Path {
    static PROGRAMS: OnceLock<PathBuf> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        let own = env::current_exe().unwrap();
        let target = own.ancestors().nth(3).unwrap();
        let examples = target.join("debug/examples");
        if env::var_os("TIDEGATE_EXAMPLES_ARE_BUILT").is_some() {
            return examples;
        }
        let mut cargo = std::process::Command::new(env!("CARGO"));
        cargo
            .args(["build", "--quiet", "-p", "tidegate", "-p", "tidegate-node", "--examples"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .arg("--target-dir")
            .arg(target);
        // Build scripts run again when these change, and Cargo sets them for a test.
        for (name, _) in
            env::vars().filter(|(name, _)| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST"))
        {
            cargo.env_remove(name);
        }
        assert!(cargo.status().unwrap().success());
        examples
    })
}

/// Starts an example.
fn start(example: &str, database: &TestDatabase) -> Child {
    let program = programs().join(example);
    Command::new(program).env("DATABASE_URL", &database.url).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap()
}

/// What an example prints, until it ends well.
async fn printed(example: &str, database: &TestDatabase) -> String {
    let output = start(example, database).wait_with_output().await.unwrap();
    assert!(output.status.success(), "{example}: {}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_quickstart_shows_the_example_as_it_is() {
    let (page, example) = (include_str!("../../docs/start-rust.md"), include_str!("../../examples/hello.rs"));
    let (_, code) = example.split_once("\n\n").unwrap();
    assert!(page.contains(&format!("```rust,ignore\n{code}```")), "docs/start-rust.md has other code");
}

#[tokio::test(flavor = "multi_thread")]
async fn hello_is_short_and_prints_the_response_and_once_more_that_of_the_same_key() {
    let source = include_str!("../../examples/hello.rs");
    assert!(source.lines().count() < 40);
    let database = TestDatabase::empty().await;
    for _ in 0..2 {
        assert_eq!(printed("hello", &database).await, "paid 700 cents to Ann\n");
    }
    assert_eq!(database.number("select count(*) from tidegate.request").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn outbox_has_an_order_with_its_request_or_neither() {
    let database = TestDatabase::empty().await;
    assert_eq!(
        printed("outbox", &database).await,
        "committed: false, orders: 0, request: None\ncommitted: true, orders: 1, request: Some(Processing)\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn custom_readiness_snoozes_a_report_until_its_data_are_there() {
    let database = TestDatabase::empty().await;
    assert_eq!(
        printed("custom_readiness", &database).await,
        "check 1 of May\ncheck 2 of May\ncheck 3 of May\nsent May\ncompleted: 12 pages\n"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn exactly_once_effect_books_each_amount_once_although_each_is_sent_twice() {
    let database = TestDatabase::empty().await;
    assert_eq!(
        printed("exactly_once_effect", &database).await,
        "100: completed\n250: completed\n400: completed\n3 rows, 750 cents\n"
    );
    assert_eq!(database.number("select min(tx_attempt) from tidegate.request").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_may_share_a_database_and_run_again() {
    let database = TestDatabase::empty().await;
    let examples = ["exactly_once_effect", "outbox", "custom_readiness", "hello"];
    for example in [examples, examples].concat() {
        printed(example, &database).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn http_gateway_accepts_replays_answers_and_refuses_until_ctrl_c() {
    let database = TestDatabase::empty().await;
    let mut gateway = start("http_gateway", &database);
    let mut lines = BufReader::new(gateway.stdout.take().unwrap()).lines();
    let url = lines.next_line().await.unwrap().unwrap();
    let client = reqwest::Client::new();
    let submit = || client.post(&url).header("Idempotency-Key", "a").json("7 to Ann").send();

    let mut ids = Vec::new();
    for _ in 0..2 {
        let answer = submit().await.unwrap();
        assert_eq!(answer.status(), 202);
        assert!(answer.headers().contains_key("Retry-After"));
        ids.push(answer.json::<serde_json::Value>().await.unwrap()["id"].as_str().unwrap().to_owned());
    }
    assert_eq!(ids[0], ids[1]);
    let answer = client.get(format!("{url}/{}", ids[0])).send().await.unwrap();
    assert_eq!(answer.text().await.unwrap(), r#"{"response":"paid 7 to Ann","status":"completed"}"#);

    database.execute("select tidegate.gate_force('transfer', 'too_many_requests')").await;
    let refused = client.post(&url).json("8 to Bob").send().await.unwrap();
    assert_eq!(refused.status(), 429);
    assert!(refused.headers().contains_key("Retry-After"));
    let beside = url.replace("/transfers", "/readyz");
    assert_eq!(client.get(beside).send().await.unwrap().status(), 200);

    let pid = Pid::from_raw(i32::try_from(gateway.id().unwrap()).unwrap());
    kill(pid, Signal::SIGINT).unwrap();
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("stopped"));
    assert!(gateway.wait().await.unwrap().success());
}
