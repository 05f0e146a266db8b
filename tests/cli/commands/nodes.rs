//! A node as a person starts it: its port, how it stops, and a wait that a cancel at another node ends.

use std::process::Stdio;

use tokio::net::TcpListener;

use super::{NO_SERVER, err, run, serve, tidegate};
use crate::support::TestDatabase;

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
