//! Does a node say that it is alive and ready exactly when it is?

use std::time::Duration;

use serde_json::json;
use sqlx::postgres::PgPoolOptions;
use tidegate::internals::store::Store;
use tidegate_node::HttpOptions;
use tokio::net::TcpListener;

use super::Api;
use crate::support::{TestDatabase, eventually};

/// An API whose database is not there.
pub(super) async fn without_a_database() -> Api {
    // A port that was free a moment ago: no process listens there now.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let pool = PgPoolOptions::new()
        .acquire_timeout(Duration::from_millis(200))
        .connect_lazy(&format!("postgres://absent@127.0.0.1:{port}/nothing"))
        .unwrap();
    Api::start(Store::new(pool), &HttpOptions::default()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_its_database_is_alive_and_ready() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;

    for path in ["/livez", "/readyz"] {
        let healthy = api.get(path).await;
        assert_eq!(healthy.status, 200, "{healthy:?}");
        assert_eq!(healthy.header("cache-control"), "no-store");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_database_everything_but_livez_answers_503() {
    let api = without_a_database().await;
    let id = "01890000-0000-7000-8000-000000000000";

    assert_eq!(api.get("/livez").await.status, 200);
    let job = format!("/v1/direct/{id}");
    for answer in [
        api.get("/readyz").await,
        api.get(&job).await,
        api.delete(&job).await,
        api.post("/v1/direct", &json!({})).await,
        api.post_with_key("/v1/direct", "k", &json!({})).await,
        api.post("/v1/responses", &json!({"job_id": id, "response": 1})).await,
    ] {
        answer.assert_problem(503, "database_unavailable");
        assert_eq!(answer.body["retryable"], true);
        // Where the database is is none of a caller's business.
        assert!(!answer.body.to_string().contains("127.0.0.1"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_not_migrated_names_what_to_run() {
    let database = TestDatabase::empty().await;
    let api = Api::of(&database).await;

    for answer in [
        api.get("/readyz").await,
        api.get("/v1/direct/01890000-0000-7000-8000-000000000000").await,
        api.post("/v1/direct", &json!({})).await,
        api.post("/v1/responses", &json!({"reference": "0x1", "response": 1})).await,
    ] {
        answer.assert_problem(503, "not_migrated");
        assert!(answer.detail().contains("tidegate migrate"));
    }
    assert_eq!(api.get("/livez").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_a_database_that_only_reads_is_not_ready() {
    let database = TestDatabase::new().await;
    database
        .execute(
            "do $$ begin
               execute format('alter database %I set default_transaction_read_only = on', current_database());
             end $$",
        )
        .await;
    let mut session = database.session().await;
    sqlx::raw_sql(
        "select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and pid <> pg_backend_pid()",
    )
    .execute(&mut session)
    .await
    .unwrap();
    let api = Api::of(&database).await;
    eventually("new connections know it", || async { api.get("/readyz").await.status == 503 }).await;
    let refused = api.get("/readyz").await;
    refused.assert_problem(503, "database_unavailable");
}
