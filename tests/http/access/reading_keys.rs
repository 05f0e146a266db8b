//! How do nodes read keys: does a change hold within a second, and what do many unknown keys cost?

use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::json;
use sqlx::{PgConnection, postgres::PgPoolOptions};
use tidegate::internals::{
    api_key::{ApiKey, Scope},
    store::Store,
};
use tidegate_node::HttpOptions;

use super::{
    super::{Api, answer, let_go},
    SOME_JOB, key, key_of,
};
use crate::support::{TestDatabase, eventually, until_blocked};

#[tokio::test(flavor = "multi_thread")]
async fn a_key_and_its_revocation_hold_on_every_running_node_within_a_second() {
    let database = TestDatabase::new().await;
    let nodes = [Api::of(&database).await, Api::of(&database).await];
    for node in &nodes {
        assert_eq!(node.get(SOME_JOB).await.status, 404);
    }

    let first = key(&database, "first", &[Scope::Submit]).await;
    let made = Instant::now();
    for node in &nodes {
        // What is asked a second later meets a node that knows.
        loop {
            let asked_after = made.elapsed();
            if node.get(SOME_JOB).await.status == 401 {
                break;
            }
            assert!(asked_after < Duration::from_secs(1));
        }
        assert_eq!(node.bearing(&first).get(SOME_JOB).await.status, 404);
    }

    database.store.key_revoke(first.id()).await.unwrap();
    let revoked = Instant::now();
    for node in &nodes {
        loop {
            let asked_after = revoked.elapsed();
            let asked = node.bearing(&first).get(SOME_JOB).await;
            if asked.status == 401 {
                break;
            }
            assert_eq!(asked.status, 404);
            assert!(asked_after < Duration::from_secs(1));
        }
        // No key is live, and calls still need one.
        node.get(SOME_JOB).await.assert_problem(401, "unauthenticated");
    }
    let late = Api::of(&database).await;
    late.get(SOME_JOB).await.assert_problem(401, "unauthenticated");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_replaced_without_a_gap() {
    let database = TestDatabase::new().await;
    let old = key_of(&database, "shop 1", &[Scope::Submit], "shop").await;
    let api = Api::of(&database).await;
    let path = api.bearing(&old).submit("direct").await;
    let taken = api.bearing(&old).post_with_key("/v1/direct", "k", &json!(1)).await;

    let new = key_of(&database, "shop 2", &[Scope::Submit], "shop").await;
    eventually("the node knows the new key", || async { api.bearing(&new).get(&path).await.status == 202 }).await;
    database.store.key_revoke(old.id()).await.unwrap();
    eventually("the node knows of the revocation", || async { api.bearing(&old).get(&path).await.status == 401 }).await;

    assert_eq!(api.bearing(&new).get(&path).await.status, 202);
    let replayed = api.bearing(&new).post_with_key("/v1/direct", "k", &json!(1)).await;
    assert_eq!(replayed.body["job_id"], taken.body["job_id"]);
    assert_eq!(api.bearing(&new).delete(&path).await.status, 200);
}

/// Holds every reading of the keys until the session commits.
async fn hold_keys(database: &TestDatabase) -> PgConnection {
    let mut session = database.session().await;
    sqlx::raw_sql("begin; lock table tidegate.api_key in access exclusive mode").execute(&mut session).await.unwrap();
    session
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_unknown_keys_shares_one_statement() {
    let database = TestDatabase::new().await;
    let known = key(&database, "known", &[Scope::Submit]).await;
    let api = Api::of(&database).await;
    let held = hold_keys(&database).await;

    let mut asking: Vec<_> = (0..100)
        .map(|_| {
            let stranger = ApiKey::generate().unwrap();
            let asking = api.bearing(&stranger).ask(Method::GET, SOME_JOB);
            tokio::spawn(answer(asking))
        })
        .collect();
    let knowing = tokio::spawn(answer(api.bearing(&known).ask(Method::GET, SOME_JOB)));
    until_blocked(&database, 1).await;
    // Malformed ones do not ask the database either.
    for _ in 0..20 {
        let malformed = api.client.get(api.url(SOME_JOB)).bearer_auth("tg_");
        asking.push(tokio::spawn(answer(malformed)));
    }
    let health = api.get("/livez").await;
    assert_eq!(health.status, 200);
    let blocked = "select count(*) from pg_stat_activity
         where datname = current_database() and wait_event_type = 'Lock'";
    assert_eq!(database.number(blocked).await, 1);
    let_go(held).await;

    for asked in asking {
        asked.await.unwrap().assert_problem(401, "unauthenticated");
    }
    assert_eq!(knowing.await.unwrap().status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_who_leaves_does_not_stop_the_reading_for_the_others() {
    let database = TestDatabase::new().await;
    let known = key(&database, "known", &[Scope::Submit]).await;
    let api = Api::of(&database).await;
    let held = hold_keys(&database).await;

    let leaving = tokio::spawn(answer(api.bearing(&known).ask(Method::GET, SOME_JOB)));
    until_blocked(&database, 1).await;
    leaving.abort();
    assert!(leaving.await.unwrap_err().is_cancelled());
    // Time for the server to see it leave, and for the others to come.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let staying: Vec<_> =
        (0..10).map(|_| tokio::spawn(answer(api.bearing(&known).ask(Method::GET, SOME_JOB)))).collect();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let blocked = "select count(*) from pg_stat_activity
         where datname = current_database() and wait_event_type = 'Lock'";
    assert_eq!(database.number(blocked).await, 1);
    let_go(held).await;

    for asked in staying {
        assert_eq!(asked.await.unwrap().status, 404);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_keys_cannot_be_read_the_answer_is_503_and_not_401() {
    let pool = PgPoolOptions::new()
        .acquire_timeout(Duration::from_millis(100))
        .connect_lazy("postgres://absent@127.0.0.1:1/nowhere")
        .unwrap();
    let api = Api::start(Store::new(pool), &HttpOptions::default()).await;
    let key = ApiKey::generate().unwrap();

    for asked in [api.get(SOME_JOB).await, api.bearing(&key).get(SOME_JOB).await] {
        asked.assert_problem(503, "database_unavailable");
    }

    let database = TestDatabase::new().await;
    let known = self::key(&database, "known", &[Scope::Submit]).await;
    let api = Api::of(&database).await;
    assert_eq!(api.bearing(&known).get(SOME_JOB).await.status, 404);
    database.cut().await;
    eventually("what the node knew is too old", || async {
        let stranger = ApiKey::generate().unwrap();
        api.bearing(&stranger).get(SOME_JOB).await.status == 503
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_follows_more_keys_than_one_statement_brings() {
    let database = TestDatabase::new().await;
    database
        .execute(
            "select tidegate.key_create(lpad(to_hex(n), 16, '0'), 'key ' || n, sha256(n::text::bytea), '{submit}')
             from generate_series(1, 2500) as n",
        )
        .await;
    let last = key(&database, "last", &[Scope::Submit]).await;
    let api = Api::of(&database).await;

    assert_eq!(api.bearing(&last).get(SOME_JOB).await.status, 404);
}
