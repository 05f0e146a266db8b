use crate::support::TestDatabase;

#[tokio::test(flavor = "multi_thread")]
async fn a_submitted_request_waits_in_its_queue() {
    let database = TestDatabase::new().await;

    let id = database.submit("direct").await;

    assert_eq!(database.status(id).await, "processing");
}
