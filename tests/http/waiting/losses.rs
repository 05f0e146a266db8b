//! Does a wait outlive lost notifications, lost connections and a database that is away?

use std::time::Duration;

use serde_json::json;
use tidegate::internals::store::Store;
use tidegate_node::HttpOptions;
use tokio::time::Instant;

use super::{super::answer, Listening, awaiting, get_waiting, id_of, until_listening};
use crate::support::TestDatabase;

/// Ends a request as an operator with `psql` does, without an announcement.
async fn complete_by_sql(database: &TestDatabase, path: &str) {
    let id = id_of(path);
    database.execute(&format!("select tidegate.respond('1', id => '{id}')")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_without_notification_is_found_by_polling() {
    let database = TestDatabase::unlimited().await;
    let node = Listening::deaf(&database.store, &HttpOptions::default()).await;
    let path = awaiting(&database, &node.api).await;
    let waiting = get_waiting(&node.api, &path, 30);
    node.until_waiting(1).await;
    node.until_looked().await;
    let ended = Instant::now();
    complete_by_sql(&database, &path).await;

    let answered = waiting.await.unwrap();

    assert_eq!(answered.status, 200, "{answered:?}");
    assert_eq!(answered.body["result"], 1);
    // About a second; a machine under load gets more.
    assert!(ended.elapsed() < Duration::from_secs(10));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_loses_every_connection_goes_on_waiting() {
    let database = TestDatabase::unlimited().await;
    let node = Listening::of(&database).await;
    let path = awaiting(&database, &node.api).await;
    let waiting = get_waiting(&node.api, &path, 60);
    node.until_waiting(1).await;
    let mut session = database.session().await;
    let cut = "select pg_terminate_backend(pid) from pg_stat_activity
               where datname = current_database() and pid <> pg_backend_pid()";
    for _ in 0..3 {
        sqlx::raw_sql(cut).execute(&mut session).await.unwrap();
        node.until_looked().await;
    }
    sqlx::raw_sql(&format!("select tidegate.respond('1', id => '{}')", id_of(&path)))
        .execute(&mut session)
        .await
        .unwrap();

    assert_eq!(waiting.await.unwrap().status, 200);
    until_listening(&database, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_away_at_the_end_leaves_the_answer_that_was_held_back() {
    let database = TestDatabase::unlimited().await;
    let pool = tidegate::internals::database::connect(&database.url, &Default::default()).await.unwrap();
    let node = Listening::deaf(&Store::new(pool.clone()), &HttpOptions::default()).await;
    let posting = node.api.posting("/v1/direct", &json!({})).header("prefer", "wait=60");
    let waiting = tokio::spawn(answer(posting));
    node.until_waiting(1).await;

    pool.close().await;
    node.api.shutdown.cancel();

    let answered = waiting.await.unwrap();
    assert_eq!(answered.status, 202, "{answered:?}");
    assert!(answered.retry_after() >= 1);
    assert_eq!(answered.header("preference-applied"), "");
    assert!(answered.header("location").starts_with("/v1/direct/"));
}
