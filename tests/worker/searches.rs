//! What does a worker do for a request that has ended and may have been executed?

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU32, Ordering},
};

use serde_json::json;
use tidegate::{
    request::{Request, RequestError, RequestId},
    stage::{Found, JsonText, Receipt, Sent, Stages, Transact},
};

use super::lives::{Running, options};
use crate::support::{TestDatabase, eventually};

/// A downstream that takes each send and hangs up, and finds what its script says, the last first; then nothing.
#[derive(Clone, Default)]
struct Script {
    found: Arc<Mutex<Vec<Result<Found, RequestError>>>>,
    asked: Arc<AtomicU32>,
}

impl Transact for Script {
    type Payload = JsonText;

    async fn send(&self, _: &Request) -> Sent {
        Sent::retry("connection_lost", "closed")
    }

    async fn find_receipt(&self, request: &Request) -> Result<Found, RequestError> {
        assert_eq!((request.payload.get(), request.attempt), ("{}", 1));
        assert_eq!((&*request.kind, request.send_id), ("direct", request.id));
        self.asked.fetch_add(1, Ordering::SeqCst);
        let found = self.found.lock().unwrap().pop();
        found.unwrap_or(Ok(Found::Nothing))
    }
}

async fn once() -> TestDatabase {
    let database = TestDatabase::unlimited().await;
    database.execute("update tidegate.policy set attempts = 1 where kind = 'direct' and stage = 'tx'").await;
    database
}

async fn executed(database: &TestDatabase, id: RequestId) -> Option<String> {
    let executed = format!("select tidegate.executed(r) from tidegate.request as r where r.id = '{id}'");
    database.text(&executed).await
}

/// Lets the next search be due.
async fn hurry(database: &TestDatabase) {
    database.execute("update tidegate.outcome set search_at = tidegate.clock() where search_at is not null").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_ask_until_the_downstream_knows() {
    let receipt =
        Found::Receipt(Receipt { reference: Some("r-1".to_owned()), response: Some(json!({ "cents": 5 }).into()) });
    for (found, fact) in [(receipt, "yes"), (Found::Never, "no")] {
        let database = once().await;
        let stage = Script::default();
        // A failure, and nothing, leave it unknown.
        *stage.found.lock().unwrap() =
            vec![Ok(found), Ok(Found::Nothing), Err(RequestError::new("http_500", "away", true))];
        let options =
            tidegate::internals::worker::WorkerOptions { poll: std::time::Duration::from_millis(50), ..options() };
        let running = Running::start(
            &database.store,
            Stages::new().transact("direct", stage.clone()),
            tidegate::internals::worker::WorkerOptions { queues: vec!["tx".to_owned()], ..options },
        );
        let id = database.submit("direct").await;
        for asked in 1..=3 {
            eventually("it was searched for", || async {
                hurry(&database).await;
                stage.asked.load(Ordering::SeqCst) >= asked
            })
            .await;
        }
        eventually("it is known", || async { executed(&database, id).await.as_deref() == Some(fact) }).await;
        running.stop().await;
        assert_eq!(database.status(id).await, "failure");
        assert_eq!(stage.asked.load(Ordering::SeqCst), 3);
        assert_eq!(database.value("select source from tidegate.outcome").await, "search");
        let outlook = database.store.outlook(id).await.unwrap().unwrap();
        let resolution = outlook.resolution.unwrap();
        assert_eq!(resolution.executed.as_str(), fact);
        let response = resolution.response.map(|response| response.get().to_owned());
        assert_eq!(response.as_deref(), (fact == "yes").then_some(r#"{"cents": 5}"#));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_of_a_search_ends_no_worker() {
    struct Panics;
    impl Transact for Panics {
        type Payload = JsonText;

        async fn send(&self, _: &Request) -> Sent {
            Sent::retry("connection_lost", "closed")
        }

        async fn find_receipt(&self, _: &Request) -> Result<Found, RequestError> {
            panic!("on purpose")
        }
    }
    let database = once().await;
    let stages = Stages::new().transact("direct", Panics);
    let options = tidegate::internals::worker::WorkerOptions {
        queues: vec!["tx".to_owned()],
        poll: std::time::Duration::from_millis(50),
        ..options()
    };
    let running = Running::start(&database.store, stages, options);
    let searches = "select sum(searches) from tidegate.outcome";
    for _ in 0..2 {
        let before = database.text(searches).await;
        database.submit("direct").await;
        eventually("it was searched for", || async {
            hurry(&database).await;
            database.text(searches).await > before
        })
        .await;
    }
    running.stop().await;
}
