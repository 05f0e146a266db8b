//! What a connection is held to, whatever it sends or does not send.

use std::time::Duration;

use futures_util::future::join_all;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::json;
use tidegate_node::{ConnectionOptions, HttpOptions};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{Api, answer, hold_submissions, let_go, read_to_end, until_submissions_wait};
use crate::{
    cli::commands::serve,
    support::{TestDatabase, eventually},
};

async fn within(database: &TestDatabase, connections: ConnectionOptions) -> Api {
    Api::start_within(database.store.clone(), &HttpOptions::default(), connections).await
}

/// Reads until the head of an answer has come.
async fn head(stream: &mut TcpStream) -> String {
    let mut said = Vec::new();
    while !said.ends_with(b"\r\n\r\n") {
        said.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(said).unwrap()
}

const LIVE: &str = "GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n";

#[tokio::test(flavor = "multi_thread")]
async fn one_connection_too_many_is_told_and_closed_and_a_place_is_free_again_later() {
    let database = TestDatabase::new().await;
    let options = ConnectionOptions { connection_limit: 2, ..ConnectionOptions::default() };
    let api = within(&database, options).await;
    let mut first = api.raw(LIVE).await;
    let mut second = api.raw(LIVE).await;
    assert!(head(&mut first).await.starts_with("HTTP/1.1 200 "));
    assert!(head(&mut second).await.starts_with("HTTP/1.1 200 "));

    // With a proper client, so that the answer is known to be proper.
    let refused = api.get("/livez").await;

    refused.assert_problem(503, "overloaded");
    assert_eq!(refused.header("connection"), "close");
    first.write_all(LIVE.as_bytes()).await.unwrap();
    drop(second);
    eventually("a place is free", || async {
        let mut next = api.raw(LIVE).await;
        head(&mut next).await.starts_with("HTTP/1.1 200 ")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_is_too_large_is_refused() {
    let database = TestDatabase::new().await;
    let options = ConnectionOptions { head_limit: 16 * 1024, ..ConnectionOptions::default() };
    let api = within(&database, options).await;

    for sent in [
        format!("GET /livez HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n", "x".repeat(20_000)),
        format!("GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n", "x".repeat(20_000)),
        format!("GET /livez HTTP/1.1\r\nhost: localhost\r\n{}\r\n", "x: y\r\n".repeat(200)),
    ] {
        let said = read_to_end(api.raw(&sent).await).await;
        let refused = ["HTTP/1.1 431 ", "HTTP/1.1 414 "];
        assert!(refused.iter().any(|line| said.starts_with(line)), "{said}");
    }
    let fits =
        format!("GET /livez HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nx: {}\r\n\r\n", "x".repeat(10_000));
    let said = read_to_end(api.raw(&fits).await).await;
    assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_says_nothing_or_half_a_head_or_nothing_more_is_closed() {
    let database = TestDatabase::new().await;
    // Long enough for a busy machine to read a head in it.
    let options = ConnectionOptions { idle_timeout: Duration::from_secs(2), ..ConnectionOptions::default() };
    let api = within(&database, options).await;

    let parts = ["", "GET /livez HT", "GET /livez HTTP/1.1\r\nhost: localhost\r\n", LIVE];
    let closed = parts.map(|sent| {
        let api = &api;
        async move { (sent, read_to_end(api.raw(sent).await).await) }
    });
    for (sent, said) in join_all(closed).await {
        let answered = if sent == LIVE { "HTTP/1.1 200 " } else { "" };
        assert!(said.starts_with(answered), "{sent}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_names_one_host() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    for (version, hosts, status) in [
        ("1.1", "", "400"),
        ("1.1", "host: a\r\nhost: b\r\n", "400"),
        ("1.1", "host: a\r\n", "200"),
        ("1.1", "host:\r\n", "200"),
        ("1.0", "", "200"),
    ] {
        let call = format!("GET /livez HTTP/{version}\r\n{hosts}connection: close\r\n\r\n");
        let said = read_to_end(api.raw(&call).await).await;
        assert_eq!(said.split(' ').nth(1), Some(status), "{call}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_http_is_refused_and_the_next_connection_is_served() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;

    for sent in [
        "\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n",
        "GET\r\n\r\n",
        "GET /livez HTTP/9.9\r\n\r\n",
        "GET /livez HTTP/1.1\r\nhost: localhost\r\nbad header\r\n\r\n",
        "GET /livez HTTP/1.1\r\nhost: localhost\r\nx: \0\r\n\r\n",
        "POST /v1/direct HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n1",
        "POST /v1/direct HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    ] {
        let mut stream = api.raw(sent).await;
        stream.shutdown().await.unwrap();
        let said = read_to_end(stream).await;
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 4"), "{said}");
    }
    assert_eq!(api.get("/livez").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_who_takes_nothing_of_its_answers_is_given_up() {
    let database = TestDatabase::new().await;
    let options = ConnectionOptions {
        connection_limit: 1,
        write_timeout: Duration::from_millis(200),
        ..ConnectionOptions::default()
    };
    let api = within(&database, options).await;
    let stuck = api.raw("").await;

    // It asks again and again and reads no answer, until no more can be sent to it, and then until it is given up.
    let given_up = async {
        // Long answers, which soon fill what the system buffers.
        let many = "GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(1000);
        let (_unread, mut asking) = stuck.into_split();
        while asking.write_all(many.as_bytes()).await.is_ok() {}
    };
    tokio::time::timeout(Duration::from_secs(60), given_up).await.unwrap();

    eventually("its place is free", || async { api.get("/livez").await.status == 200 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_do_not_finish_within_the_grace_are_cut_off() {
    let database = TestDatabase::new().await;
    let options = ConnectionOptions { grace: Duration::from_millis(100), ..ConnectionOptions::default() };
    let api = within(&database, options).await;
    let held = hold_submissions(&database).await;
    let posting = api.posting("/v1/direct", &json!({})).send();
    let posting = tokio::spawn(posting);
    until_submissions_wait(&database, 1).await;

    api.shutdown.cancel();

    api.served.await.unwrap().unwrap();
    assert!(posting.await.unwrap().is_err());
    let_go(held).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_connection_costs_its_sender_only() {
    let database = TestDatabase::new().await;
    let options = ConnectionOptions { connection_limit: 0, ..ConnectionOptions::default() };
    let api = within(&database, options).await;

    for _ in 0..50 {
        answer(api.posting("/v1/direct", &json!("x".repeat(10_000)))).await.assert_problem(503, "overloaded");
    }
}

/// A node that gets no processor for a while accepts none, and the system keeps them for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_callers_is_kept_until_the_node_accepts_them() {
    let database = TestDatabase::new().await;
    let (mut node, url) = serve(&database.url, &[]).await;
    let address = url.strip_prefix("http://").unwrap();
    let pid = Pid::from_raw(node.id().unwrap().try_into().unwrap());
    let most =
        std::fs::read_to_string("/proc/sys/net/core/somaxconn").map_or(4096, |most| most.trim().parse().unwrap());
    kill(pid, Signal::SIGSTOP).unwrap();

    let mut callers = Vec::new();
    for _ in 0..3000.min(most) {
        let mut caller = TcpStream::connect(address).await.unwrap();
        caller.write_all(LIVE.as_bytes()).await.unwrap();
        callers.push(caller);
    }
    kill(pid, Signal::SIGCONT).unwrap();

    for mut caller in callers {
        assert!(head(&mut caller).await.starts_with("HTTP/1.1 200 "));
    }
    node.kill().await.unwrap();
}
