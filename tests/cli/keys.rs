//! API keys on the command line, and a node without any key.

use std::process::Stdio;

use serde_json::Value;
use tidegate::internals::api_key::ApiKey;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::{Child, Command},
};

use crate::{
    cli::commands::{err, out, run, serve, tidegate},
    support::{TestDatabase, eventually},
};

async fn fed(mut command: Command, input: &str) -> std::process::Output {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // When the arguments are refused, standard input is not read.
    let _ = stdin.write_all(input.as_bytes()).await;
    drop(stdin);
    child.wait_with_output().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_shown_once_listed_without_its_secret_and_revoked() {
    let database = TestDatabase::uninitialised().await;

    let made = run(&database.url, &["key", "create", "shop", "--scope", "submit", "--scope", "respond"]).await;
    assert!(made.status.success(), "{}", err(&made));
    let key = ApiKey::parse(out(&made).trim()).unwrap();
    assert!(err(&made).contains("only time"), "{}", err(&made));
    assert!(err(&made).contains(key.id()), "{}", err(&made));

    let listed = run(&database.url, &["key", "list"]).await;
    for word in [key.id(), "shop", "respond submit"] {
        assert!(out(&listed).contains(word), "{}", out(&listed));
    }
    let secret = key.expose().rsplit('_').next().unwrap();
    assert!(!out(&listed).contains(secret));

    let revoked = run(&database.url, &["key", "revoke", key.id()]).await;
    assert!(out(&revoked).contains("(shop) revoked"), "{}", out(&revoked));
    let again = run(&database.url, &["key", "revoke", key.id()]).await;
    assert!(again.status.success());
    assert!(out(&again).contains("revoked before"), "{}", out(&again));
    let stranger = run(&database.url, &["key", "revoke", "shop"]).await;
    assert!(err(&stranger).contains("tidegate key list"), "{}", err(&stranger));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_key_command_prints_json() {
    let database = TestDatabase::uninitialised().await;
    let json = async |arguments: &[&str]| -> Value {
        let shown = run(&database.url, arguments).await;
        serde_json::from_slice(&shown.stdout).unwrap()
    };

    let made = json(&["key", "create", "a", "--scope", "admin", "--submitter", "s", "--json"]).await;
    let id = made["id"].as_str().unwrap();
    assert_eq!(ApiKey::parse(made["key"].as_str().unwrap()).unwrap().id(), id);
    assert_eq!(made["submitter"], "s");
    let listed = json(&["key", "list", "--json"]).await;
    assert_eq!(listed[0]["id"], id);
    assert_eq!(listed[0]["scopes"][0], "admin");
    assert_eq!(listed[0]["revoked_at"], Value::Null);
    assert!(listed[0].get("secret_hash").is_none());
    let revoked = json(&["key", "revoke", id, "--json"]).await;
    assert_eq!(revoked["revoked"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_key_is_refused_with_a_reason() {
    let database = TestDatabase::uninitialised().await;
    run(&database.url, &["key", "create", "shop", "--scope", "submit"]).await;

    for (arguments, reason) in [
        (&["shop", "--scope", "submit"][..], "--submitter shop"),
        (&["x", "--scope", "root"], "submit, submit-accepted, respond, read, payload or admin"),
        (&["x"], "--scope"),
        (&["", "--scope", "submit"], "api key name has 1 to 100 characters"),
        (&["x", "--scope", "submit", "--submitter", ""], "api key submitter has 1 to 200 characters"),
    ] {
        let refused = run(&database.url, &[&["key", "create"], arguments].concat()).await;
        assert!(!refused.status.success(), "{arguments:?}");
        assert!(err(&refused).contains(reason), "{arguments:?}: {}", err(&refused));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_from_elsewhere_is_taken_once_however_often_it_is_given() {
    let database = TestDatabase::uninitialised().await;
    let key = ApiKey::generate().unwrap();
    let create = || {
        let mut command = tidegate(&database.url);
        command.args(["key", "create", "shop", "--scope", "submit", "--from-stdin"]);
        command
    };

    for _ in 0..2 {
        let made = fed(create(), &format!("{}\n", key.expose())).await;
        assert!(made.status.success(), "{}", err(&made));
        assert_eq!(out(&made).trim(), key.id());
    }
    for nonsense in ["", "secret", &"x".repeat(10_000)] {
        let refused = fed(create(), nonsense).await;
        assert!(!refused.status.success());
        assert!(err(&refused).contains("64 hex digits"), "{}", err(&refused));
    }

    assert_eq!(database.number("select count(*) from tidegate.api_key").await, 1);
}

async fn log_of(mut node: Child) -> String {
    let mut log = String::new();
    let mut stderr = node.stderr.take().unwrap();
    node.kill().await.unwrap();
    stderr.read_to_string(&mut log).await.unwrap();
    log
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_key_a_node_listens_on_loopback_only_and_says_so() {
    let database = TestDatabase::new().await;

    let (node, url) = serve(&database.url, &["--listen", "0.0.0.0:0"]).await;

    assert!(url.starts_with("http://127.0.0.1:"), "{url}");
    assert_eq!(reqwest::get(format!("{url}/v1/direct")).await.unwrap().status(), 200);
    // The running node requires a key that is made later.
    run(&database.url, &["key", "create", "first", "--scope", "submit"]).await;
    eventually("a key has to be shown", || async {
        reqwest::get(format!("{url}/v1/direct")).await.unwrap().status() == 401
    })
    .await;
    let log = log_of(node).await;
    assert!(log.contains("tidegate key create"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_on_loopback_warns_while_there_is_no_key() {
    let database = TestDatabase::new().await;
    let (open, _) = serve(&database.url, &["--listen", "127.0.0.1:0"]).await;
    let create = ["key", "create", "first", "--scope", "submit"];
    run(&database.url, &create).await;
    let (guarded, _) = serve(&database.url, &["--listen", "127.0.0.1:0"]).await;

    assert!(log_of(open).await.contains("no API key yet"));
    assert!(!log_of(guarded).await.contains("no API key yet"));
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_key_a_node_listens_on_the_given_address_even_when_the_key_is_revoked() {
    let database = TestDatabase::new().await;
    let made = run(&database.url, &["key", "create", "shop", "--scope", "submit", "--json"]).await;
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();

    for revoked in [false, true] {
        if revoked {
            run(&database.url, &["key", "revoke", made["id"].as_str().unwrap()]).await;
        }
        let (node, url) = serve(&database.url, &["--listen", "0.0.0.0:0"]).await;
        assert!(url.starts_with("http://0.0.0.0:"), "{url}");
        let url = url.replace("0.0.0.0", "127.0.0.1");
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let asking = client.get(format!("{url}/v1/direct"));
        let with_key = asking.try_clone().unwrap().bearer_auth(made["key"].as_str().unwrap());
        assert_eq!(asking.send().await.unwrap().status(), 401);
        assert_eq!(with_key.send().await.unwrap().status(), if revoked { 401 } else { 200 });
        let log = log_of(node).await;
        assert!(!log.contains("loopback"), "{log}");
        assert!(!log.contains("tg_"), "{log}");
    }
}
