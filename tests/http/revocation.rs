//! Does a stream or a held poll end when its API key is revoked?

use reqwest::Method;
use tidegate::internals::api_key::{ApiKey, Scope};
use tidegate_node::HttpOptions;

use super::{
    access::key,
    responses::send_all,
    waiting::{Listening, id_of},
};
use crate::support::{TestDatabase, eventually};

/// A node, a key, and a request of its submitter whose response is awaited.
async fn begin(database: &TestDatabase) -> (Listening, ApiKey, String) {
    let key = key(database, "alice", &[Scope::Submit]).await;
    let node = Listening::start(database, &HttpOptions::default()).await;
    let path = node.api.bearing(&key).submit("direct").await;
    send_all(database, "0x1").await;
    (node, key, path)
}

/// Revokes the key, waits until the node knows, and ends the request.
async fn revoke_and_end(database: &TestDatabase, node: &Listening, key: &ApiKey, path: &str) {
    database.store.key_revoke(key.id()).await.unwrap();
    eventually("the node knows", || async {
        let asking = node.api.bearing(key).ask(Method::GET, path);
        asking.send().await.unwrap().status() == 401
    })
    .await;
    database.execute(&format!("select tidegate.respond('\"secret\"', id => '{}')", id_of(path))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stream_of_a_revoked_key_ends_without_the_result() {
    let database = TestDatabase::unlimited().await;
    let (node, key, path) = begin(&database).await;
    let mut response = node.api.bearing(&key).ask(Method::GET, &format!("{path}/events")).send().await.unwrap();
    assert_eq!(response.status(), 200);
    let mut said = String::new();
    while !said.contains("event: state") {
        let chunk = response.chunk().await.unwrap().unwrap();
        said.push_str(std::str::from_utf8(&chunk).unwrap());
    }

    revoke_and_end(&database, &node, &key, &path).await;
    while let Some(chunk) = response.chunk().await.unwrap() {
        said.push_str(std::str::from_utf8(&chunk).unwrap());
    }

    assert!(!said.contains("secret"), "{said}");
    node.until_waiting(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stream_of_a_reader_without_a_key_ends_when_keys_come_into_use() {
    let database = TestDatabase::unlimited().await;
    let node = Listening::of(&database).await;
    let path = node.api.submit("direct").await;
    send_all(&database, "0x1").await;
    let following = node.api.client.get(node.api.url(&format!("{path}/events")));
    let mut response = following.send().await.unwrap();
    assert_eq!(response.status(), 200);

    let first = key(&database, "first", &[Scope::Submit]).await;
    revoke_and_end(&database, &node, &first, &path).await;
    let mut said = String::new();
    while let Some(chunk) = response.chunk().await.unwrap() {
        said.push_str(std::str::from_utf8(&chunk).unwrap());
    }

    assert!(!said.contains("secret"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_held_back_for_a_revoked_key_is_401() {
    let database = TestDatabase::unlimited().await;
    let (node, key, path) = begin(&database).await;
    let asking = node.api.bearing(&key).ask(Method::GET, &path);
    let waiting = tokio::spawn(asking.header("prefer", "wait=60").send());
    node.until_waiting(1).await;

    revoke_and_end(&database, &node, &key, &path).await;

    let answered = waiting.await.unwrap().unwrap();
    assert_eq!(answered.status(), 401);
    let said = answered.text().await.unwrap();
    assert!(said.contains("unauthenticated") && !said.contains("secret"));
}
