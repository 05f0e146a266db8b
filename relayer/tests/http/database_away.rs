//! While the database is away, polls are answered "still queued", and submissions "later": clients repeat both.

use serde_json::json;
use tidegate_fhevm::request::Family;

use super::{
    node::{Node, body, database},
    support::eventually,
};

#[tokio::test]
async fn while_the_database_is_away_no_call_is_ended() {
    let database = database().await;
    let node = Node::start(&database).await;
    let job = node.post(Family::PublicDecrypt, &body(Family::PublicDecrypt)).await.job();
    database.cut().await;

    for family in Family::ALL {
        // A node that has no database does not know whose job it is, or whether there is one.
        let poll = node.poll(family, &job).await;
        assert_eq!((poll.status, poll.retry_after()), (202, 5), "{family:?}");
        let submission = node.post(family, &body(family)).await;
        assert_eq!((submission.status, submission.retry_after()), (429, 5), "{family:?}");
        assert_eq!(submission.label(), "rate_limited");
        // What needs no database is answered as ever.
        assert_eq!(node.poll(family, "1").await.status, 400);
        assert_eq!(node.post(family, &json!({})).await.label(), "missing_fields");
    }
    let health = node.get("/healthz").await;
    assert_eq!((health.status, &health.body["dependencies"]["database"]), (503, &json!("fail")));
    assert_eq!(node.get("/liveness").await.status, 200);

    database.restore().await;
    eventually("submissions are stored again", || async {
        node.post(Family::PublicDecrypt, &body(Family::PublicDecrypt)).await.status == 202
    })
    .await;
    let again = node.post(Family::PublicDecrypt, &body(Family::PublicDecrypt)).await;
    assert_eq!(again.job(), job);
    eventually("the database is healthy", || async {
        node.get("/healthz").await.body["dependencies"]["database"] == "ok"
    })
    .await;
}
