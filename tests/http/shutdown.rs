//! Does a node that stops finish the calls under way, and take no new ones?

use serde_json::json;
use tokio::net::TcpStream;

use super::{Api, answer, hold_submissions, let_go, until_submissions_wait};
use crate::support::{TestDatabase, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_finishes_what_is_in_flight_and_takes_nothing_new() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    // An idle connection must not keep the server from ending.
    api.get("/livez").await;
    let held = hold_submissions(&database).await;
    let in_flight = tokio::spawn(answer(api.posting("/v1/direct", &json!({}))));
    until_submissions_wait(&database, 1).await;

    api.shutdown.cancel();
    eventually("the port is closed", || async { TcpStream::connect(api.address).await.is_err() }).await;
    assert!(!api.served.is_finished());
    let_go(held).await;

    assert_eq!(in_flight.await.unwrap().status, 202);
    api.served.await.unwrap().unwrap();
    assert_eq!(database.number("select count(*) from tidegate.request").await, 1);
}
