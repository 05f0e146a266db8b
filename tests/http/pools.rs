//! Who waits for whose connections.

use reqwest::Method;
use serde_json::{Value, json};
use tidegate::internals::{
    api_key::Scope,
    database::{self, PoolSettings},
    store::Store,
};
use tidegate_node::HttpOptions;

use super::{Api, access::key, let_go};
use crate::support::{TestDatabase, patient, race::Session, until_blocked};

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_connections_all_wait_for_a_lock_can_still_be_paused() {
    let database = TestDatabase::new().await;
    let admin = key(&database, "admin", &[Scope::Admin]).await;
    let settings = PoolSettings { connections_max: 4, ..patient() };
    let pool = database::connect(&database.url, &settings).await.unwrap();
    let api = Api::start(Store::new(pool.clone()), &HttpOptions::default()).await;
    let admin = api.bearing(&admin);
    let path = admin.submit("direct").await;
    let mut session = database.session().await;
    sqlx::raw_sql("begin; lock table tidegate.request in access exclusive mode").execute(&mut session).await.unwrap();

    let (_, id) = path.rsplit_once('/').unwrap();
    let several = format!("/v1/direct?id={id}");
    let polls: Vec<_> = [&path, &several]
        .into_iter()
        .cycle()
        .take(20)
        .map(|path| tokio::spawn(admin.ask(Method::GET, path).send()))
        .collect();
    until_blocked(&database, 3).await;
    // Polls leave a quarter of the connections to the other calls.
    assert_eq!(admin.get("/readyz").await.status, 200);
    let mut observer = Session::open(&database).await;
    let blocked = observer
        .texts(
            "select a.backend_type || ': ' || a.query from pg_stat_activity as a
             where a.datname = current_database() and a.wait_event_type = 'Lock'
               and a.query like '%where each stands%' -- the node may read its gates meanwhile",
        )
        .await;
    assert_eq!(blocked.len(), 3, "{blocked:?}");
    let posting = admin.ask(Method::POST, "/v1/direct").json(&json!({}));
    let posted = tokio::spawn(posting.send());
    until_blocked(&database, 4).await;

    let pausing = admin.ask(Method::POST, "/v1/admin/queues/tx/pause");
    let paused: Value = pausing.send().await.unwrap().json().await.unwrap();
    let figures = admin.get("/metrics").await;

    assert_eq!(paused["changed"], Value::Bool(true), "{paused}");
    assert_eq!(figures.status, 200);
    assert_eq!(pool.num_idle(), 0);
    let_go(session).await;
    for poll in polls {
        assert_eq!(poll.await.unwrap().unwrap().status(), 202);
    }
    assert_eq!(posted.await.unwrap().unwrap().status(), 202);
}
