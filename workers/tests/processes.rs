//! Real worker processes against a real database: killed, stopped, refused.
#![allow(missing_docs, clippy::unwrap_used, unreachable_pub, reason = "tests")]

#[path = "../../tests/support/mod.rs"]
mod support;

#[path = "processes/breaker.rs"]
mod breaker;

use std::{path::PathBuf, process::Stdio};

use support::{TestDatabase, eventually};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

/// A worker with its own simulated downstream.
fn simulate(database: &TestDatabase, name: &str, options: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_tidegate-worker"))
        .args(["simulate", "--name", name, "--lease", "1s", "--grace", "5s"])
        .args(options)
        .env("DATABASE_URL", &database.url)
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

fn terminate(child: &Child) {
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
}

async fn all_completed(database: &TestDatabase) {
    eventually("every request completes", || async {
        database
            .number("select count(*) from tidegate.request where req_status <> 'completed'")
            .await
            == 0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_worker_held_is_sent_by_another() {
    let database = TestDatabase::unlimited().await;
    for _ in 0..20 {
        database.submit("direct").await;
    }
    let mut doomed = simulate(&database, "doomed", &["--send-latency", "constant:1h"]);
    eventually("it holds everything", || async {
        database
            .number("select count(*) from tidegate.request where req_status = 'tx_in_flight' and worker = 'doomed'")
            .await
            == 20
    })
    .await;

    doomed.kill().await.unwrap();
    let mut other = simulate(&database, "other", &[]);

    all_completed(&database).await;
    assert_eq!(
        database
            .number("select count(*) from tidegate.request_event where cause = 'recovered'")
            .await,
        20
    );
    assert_eq!(
        support::invariants::violations(&database.pool).await,
        Vec::<String>::new()
    );
    terminate(&other);
    assert!(other.wait().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_worker_leaves_nothing_in_its_hands() {
    let database = TestDatabase::new().await;
    database
        .execute("update tidegate.queue set per_seconds = 5 where name = 'tx'")
        .await;
    for _ in 0..30 {
        database.submit("direct").await;
    }
    let mut worker = simulate(&database, "leaving", &["--send-latency", "constant:50ms"]);
    eventually("it works", || async {
        database
            .number("select count(*) from tidegate.request where req_status = 'completed'")
            .await
            > 0
    })
    .await;

    terminate(&worker);
    assert!(worker.wait().await.unwrap().success());

    assert_eq!(
        database
            .number("select count(*) from tidegate.request where req_status = 'tx_in_flight'")
            .await,
        0
    );
    assert_eq!(
        database
            .number("select count(*) from pgmq.q_tx where headers is not null")
            .await,
        0
    );
    assert_eq!(
        database
            .number("select count(*) from tidegate.worker where name = 'leaving' and stopped_at is not null")
            .await,
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_serves_its_figures_where_it_is_told_to() {
    let database = TestDatabase::unlimited().await;
    database.submit("direct").await;
    let mut worker = Command::new(env!("CARGO_BIN_EXE_tidegate-worker"))
        .args(["simulate", "--metrics-listen", "127.0.0.1:0"])
        .env("DATABASE_URL", &database.url)
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut said = BufReader::new(worker.stdout.take().unwrap()).lines();
    let line = said.next_line().await.unwrap().unwrap();
    let address = line.strip_prefix("metrics on ").unwrap();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();

    eventually("its receipt is counted", || async {
        let answer = client.get(address).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        let text = answer.text().await.unwrap();
        assert!(
            text.contains("tidegate_database_connections_max 12\n"),
            "{text}"
        );
        text.contains("tidegate_worker_settled_total{queue=\"tx\",outcome=\"receipt\"} 1\n")
    })
    .await;

    terminate(&worker);
    assert!(worker.wait().await.unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_cannot_work_says_what_to_do() {
    let empty = TestDatabase::empty().await;
    let ready = TestDatabase::new().await;
    ready
        .execute(
            "insert into tidegate.kind (name, flow, tx_queue) values ('own_kind', 'direct', 'tx')",
        )
        .await;
    for (url, arguments, word) in [
        (
            "postgres://nobody@127.0.0.1:1/nowhere",
            &["simulate"][..],
            "cannot be reached",
        ),
        (&empty.url, &["simulate"], "tidegate migrate"),
        (&ready.url, &["simulate"], "own_kind"),
        (
            &ready.url,
            &["simulate", "--queue", "nope"],
            "there is no queue \"nope\"",
        ),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_tidegate-worker"))
            .args(arguments)
            .env("DATABASE_URL", url)
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .output()
            .await
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        assert!(said.contains(word), "{arguments:?} says\n{said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}

/// The whole of it: API node, downstream, three workers, one killed, one stopped, a gate that closes and opens again.
#[tokio::test(flavor = "multi_thread")]
async fn the_demo_holds() {
    let database = TestDatabase::empty().await;
    let tidegate = PathBuf::from(env!("CARGO_BIN_EXE_tidegate-worker")).with_file_name("tidegate");
    assert!(
        tidegate.exists(),
        "build the workspace: {}",
        tidegate.display()
    );

    let output = Command::new(tidegate)
        .args(["demo", "--requests", "120"])
        .env("DATABASE_URL", &database.url)
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .output()
        .await
        .unwrap();

    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{said}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for word in [
        "gate tx: TOO_MANY_REQUESTS at depth ",
        "gate tx: ACCEPTING_REQUESTS at depth ",
        "Everything holds.",
    ] {
        assert!(said.contains(word), "{word} is not in\n{said}");
    }
}
