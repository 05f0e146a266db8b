//! `Prefer: wait`: who waits, for how long, who wakes them, and what that costs.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate::{
    http::{HttpOptions, Node, serve},
    listener,
    news::Teller,
    request::RequestId,
    store::{Response, Store},
};
use tokio::{net::TcpListener, task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{Answer, Api, answer, read_to_end};
use crate::support::{TestDatabase, eventually, sql::send_all};

/// How long news may take when nothing goes wrong; far below the second after which a node looks for itself.
const BY_NEWS: Duration = Duration::from_millis(700);

/// A node that listens, as `tidegate serve` does.
struct Listening {
    api: Api,
    node: Node,
}

impl Listening {
    async fn start(database: &TestDatabase, options: &HttpOptions) -> Self {
        let node = Node::new(database.store.clone(), options);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let served = tokio::spawn(serve(listener, node.router(options), shutdown.clone()));
        tokio::spawn(listener::listen(
            database.pool.clone(),
            node.hearers(),
            shutdown.clone(),
        ));
        until_listening(database, 1).await;
        let api = Api::of_server(address, shutdown, served);
        Self { api, node }
    }

    async fn of(database: &TestDatabase) -> Self {
        Self::start(database, &HttpOptions::default()).await
    }

    /// Until this many wait, and each was looked for once: whatever ends from here on is found by news, or by the next
    /// look.
    async fn until_waiting(&self, waiters: usize) {
        eventually("they wait", || async {
            self.node.waiters().waiting().waiters == waiters
        })
        .await;
    }
}

/// Another process that moves requests: it tells, when it has heard that somebody wants to know.
struct Elsewhere {
    store: Store,
    teller: Teller,
    _stop: tokio_util::sync::DropGuard,
}

impl Elsewhere {
    async fn start(database: &TestDatabase, listening_before: i64) -> Self {
        let settings = tidegate::database::PoolSettings::default();
        let pool = tidegate::database::connect(&database.url, &settings)
            .await
            .unwrap();
        let store = Store::new(pool.clone());
        let teller = Teller::new(store.clone());
        let stop = CancellationToken::new();
        tokio::spawn(listener::listen(
            pool,
            vec![Box::new(teller.clone())],
            stop.clone(),
        ));
        until_listening(database, listening_before + 1).await;
        Self {
            store,
            teller,
            _stop: stop.drop_guard(),
        }
    }

    /// Delivers the response of a request that awaits one.
    async fn respond(&self, id: RequestId) {
        let responded = self
            .store
            .respond(&Response {
                id: Some(id),
                reference: None,
                part: None,
                accept: None,
                response: crate::support::raw(&json!("the answer")),
            })
            .await
            .unwrap();
        assert_eq!(responded.outcome, "completed");
        self.teller.note([(id, responded.status.unwrap())]);
    }
}

/// Until this many sessions of the database listen for news.
async fn until_listening(database: &TestDatabase, sessions: i64) {
    eventually("they listen", || async {
        database
            .number(
                "select count(*) from pg_stat_activity
                 where datname = current_database() and query ilike '%listen%tidegate_%'
                   and query not ilike '%pg_stat_activity%'",
            )
            .await
            >= sessions
    })
    .await;
}

fn id_of(path: &str) -> RequestId {
    path.rsplit('/').next().unwrap().parse().unwrap()
}

fn get_waiting(api: &Api, path: &str, seconds: u64) -> JoinHandle<Answer> {
    let prefer = format!("wait={seconds}");
    let request = api.client.get(api.url(path)).header("prefer", prefer);
    tokio::spawn(answer(request))
}

/// A request of kind `direct` whose response is awaited; its path.
async fn awaiting(database: &TestDatabase, api: &Api) -> String {
    let path = api.submit("direct").await;
    send_all(database, "0x1").await;
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_told_by_another_process_answers_at_once() {
    let database = TestDatabase::unlimited().await;
    let node = Listening::of(&database).await;
    let elsewhere = Elsewhere::start(&database, 1).await;
    let first = awaiting(&database, &node.api).await;
    let second = awaiting(&database, &node.api).await;
    // The first one asks for news; by its answer, the other process is known to have heard that.
    let waiting = get_waiting(&node.api, &first, 30);
    node.until_waiting(1).await;
    elsewhere.respond(id_of(&first)).await;
    assert_eq!(waiting.await.unwrap().status, 200);

    let waiting = get_waiting(&node.api, &second, 30);
    node.until_waiting(1).await;
    // Right after a look, so that the next one is far away.
    let looks = node.node.waiters().waiting().looks;
    eventually("a look", || async {
        node.node.waiters().waiting().looks > looks
    })
    .await;
    let ended = Instant::now();
    elsewhere.respond(id_of(&second)).await;
    let answered = waiting.await.unwrap();

    assert!(ended.elapsed() < BY_NEWS, "{:?}", ended.elapsed());
    assert_eq!(answered.status, 200);
    assert_eq!(answered.header("preference-applied"), "wait=30");
    assert_eq!(answered.header("cache-control"), "no-store");
    assert_eq!(answered.header("retry-after"), "");
    assert_eq!(answered.body["status"], "succeeded");
    assert_eq!(answered.body["result"], json!("the answer"));
    node.until_waiting(0).await;
}
