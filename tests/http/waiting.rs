//! `Prefer: wait`: which calls wait, what wakes them, and what that costs.

mod ends;
mod losses;

use std::time::Duration;

use serde_json::json;
use tidegate::{
    internals::{
        listener,
        news::Announcer,
        store::{Response, Store},
    },
    request::{Request, RequestId},
    stage::{JsonText, Receipt, Sent, Transact},
};
use tidegate_node::{HttpOptions, Node, NodeOptions, internals::serve};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::{Answer, Api, answer, responses::send_all};
use crate::support::{TestDatabase, eventually};

/// A node that listens, as `tidegate serve` does.
pub(super) struct Listening {
    pub(super) api: Api,
    pub(super) node: Node,
}

impl Listening {
    pub(super) async fn start(database: &TestDatabase, options: &HttpOptions) -> Self {
        let node = Self::deaf(&database.store, options).await;
        tokio::spawn(listener::listen(
            database.pool.clone(),
            database.store.clone(),
            node.node.subscribers(),
            node.api.shutdown.clone(),
        ));
        until_listening(database, 1).await;
        node
    }

    /// A node that hears nothing.
    async fn deaf(store: &Store, options: &HttpOptions) -> Self {
        let node = Node::of_store(store.clone(), NodeOptions::default().http(options.clone()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let served = tokio::spawn(serve(listener, node.router(), shutdown.clone()));
        let api = Api::of_server(address, shutdown, served);
        Self { api, node }
    }

    pub(super) async fn of(database: &TestDatabase) -> Self {
        Self::start(database, &HttpOptions::default()).await
    }

    /// Until exactly this many wait.
    pub(super) async fn until_waiting(&self, waiters: usize) {
        eventually("they wait", || async { self.node.waiters().waiting().waiters == waiters }).await;
    }

    /// Until everything was looked at once more: the next time is most of a second away.
    pub(super) async fn until_looked(&self) {
        let looks = self.looks();
        eventually("a look", || async { self.looks() > looks }).await;
    }

    fn looks(&self) -> u64 {
        self.node.waiters().waiting().polls
    }
}

/// Another process that moves requests: it announces them when a node has asked for that.
pub(super) struct Elsewhere {
    pub(super) store: Store,
    pub(super) announcer: Announcer,
    _stop: tokio_util::sync::DropGuard,
}

impl Elsewhere {
    pub(super) async fn start(database: &TestDatabase, listening_before: i64) -> Self {
        let settings = tidegate::internals::database::PoolSettings::default();
        let pool = tidegate::internals::database::connect(&database.url, &settings).await.unwrap();
        let store = Store::new(pool.clone());
        let announcer = Announcer::new(store.clone());
        let stop = CancellationToken::new();
        tokio::spawn(listener::listen(pool, store.clone(), vec![Box::new(announcer.clone())], stop.clone()));
        until_listening(database, listening_before + 1).await;
        Self { store, announcer, _stop: stop.drop_guard() }
    }

    /// Delivers the response of a request that awaits one.
    pub(super) async fn respond(&self, id: RequestId) {
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
        self.announcer.note([(id, responded.status.unwrap())]);
    }
}

/// Until this many sessions of the database listen for news.
async fn until_listening(database: &TestDatabase, sessions: i64) {
    eventually("they listen", || async {
        database
            .number(
                "select count(*) from pg_stat_activity
                 where datname = current_database() and query ilike '%listen%tidegate_%'
                   and query not ilike all (array['%pg_stat_activity%', '%tidegate_probe%'])",
            )
            .await
            >= sessions
    })
    .await;
}

pub(super) fn id_of(path: &str) -> RequestId {
    path.rsplit('/').next().unwrap().parse().unwrap()
}

pub(super) fn get_waiting(api: &Api, path: &str, seconds: u64) -> JoinHandle<Answer> {
    let prefer = format!("wait={seconds}");
    let request = api.client.get(api.url(path)).header("prefer", prefer);
    tokio::spawn(answer(request))
}

/// A request of kind `direct` whose response is awaited; its path.
pub(super) async fn awaiting(database: &TestDatabase, api: &Api) -> String {
    let path = api.submit("direct").await;
    send_all(database, "0x1").await;
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_announced_by_another_process_is_answered_before_the_next_poll() {
    let database = TestDatabase::unlimited().await;
    let node = Listening::of(&database).await;
    let elsewhere = Elsewhere::start(&database, 1).await;

    // By the first answer, the other process is known to have heard that news are wanted. Later ones come between two
    // looks, unless this machine stops for a second: it may do so a few times.
    let mut told = false;
    for attempt in 0..10 {
        let path = awaiting(&database, &node.api).await;
        let waiting = get_waiting(&node.api, &path, 30);
        node.until_waiting(1).await;
        node.until_looked().await;
        let looks = node.looks();
        elsewhere.respond(id_of(&path)).await;
        let answered = waiting.await.unwrap();
        told = attempt > 0 && node.looks() == looks;

        assert_eq!(answered.status, 200);
        assert_eq!(answered.header("preference-applied"), "wait=30");
        assert_eq!(answered.header("cache-control"), "no-store");
        assert_eq!(answered.header("retry-after"), "");
        assert_eq!(answered.body["status"], "succeeded");
        assert_eq!(answered.body["result"], json!("the answer"));
        node.until_waiting(0).await;
        if told {
            break;
        }
    }
    assert!(told, "no announcement was sent, or none was received");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submission_waits_for_its_result_and_so_does_its_replay() {
    let database = TestDatabase::unlimited().await;
    let node = Listening::of(&database).await;
    let posting = |seconds: u64| {
        let posting = node.api.posting("/v1/direct", &json!({"n": 1}));
        let posting = posting.header("idempotency-key", "once");
        tokio::spawn(answer(posting.header("prefer", format!("wait={seconds}"))))
    };
    let first = posting(30);
    node.until_waiting(1).await;
    let replay = posting(30);
    node.until_waiting(2).await;

    // Committed and free to be claimed while its caller waits.
    send_all(&database, "0x1").await;
    let id = database.text("select id from tidegate.request").await;
    let path = format!("/v1/direct/{}", id.unwrap());
    let responded = node.api.post(&format!("{path}/responses"), &json!({"response": 7})).await;
    assert_eq!(responded.body["outcome"], "completed");

    for (answered, replayed) in [(first, ""), (replay, "true")] {
        let answered = answered.await.unwrap();
        assert_eq!(answered.status, 200, "{answered:?}");
        assert_eq!(answered.body["result"], 7);
        assert_eq!(answered.header("location"), path);
        assert_eq!(answered.header("preference-applied"), "wait=30");
        assert_eq!(answered.header("idempotency-replayed"), replayed);
        assert_eq!(answered.headers.get_all("content-length").iter().count(), 1);
    }
    // What has ended is there at once.
    let late = posting(30).await.unwrap();
    assert_eq!((late.status.as_u16(), late.body["result"].as_u64()), (200, Some(7)));
    assert_eq!(node.node.waiters().waiting().waiters, 0);
}

/// A downstream that is slower than the poll of a node for a new waiter.
struct Slow;

impl Transact for Slow {
    type Payload = JsonText;

    async fn send(&self, _: &Request) -> Sent {
        tokio::time::sleep(Duration::from_millis(100)).await;
        Sent::Receipt(Receipt { reference: None, response: Some(json!({"ok": true}).into()) })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_ends_what_a_caller_waits_for() {
    let database = TestDatabase::unlimited().await;
    let node = Listening::of(&database).await;
    let stop = CancellationToken::new();
    let worker = tokio::spawn(tidegate::internals::worker::run(
        database.store.clone(),
        crate::worker::lives::all_stages().transact("direct", Slow),
        crate::worker::lives::options(),
        stop.clone(),
    ));

    let looks = node.looks();
    for n in 0..20 {
        let posting = node.api.posting("/v1/direct", &json!({ "n": n }));
        let answered = answer(posting.header("prefer", "wait=30")).await;
        assert_eq!(answered.status, 200, "{answered:?}");
        assert_eq!(answered.body["result"], json!({"ok": true}));
    }
    // A waiter without announcements waits for the next poll, each time.
    assert!(node.looks() - looks < 15, "{} looks", node.looks() - looks);
    stop.cancel();
    worker.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_callers_take_no_permit_of_other_calls() {
    let database = TestDatabase::unlimited().await;
    let options = HttpOptions { concurrency_limit: 1, waiters_max: 2, ..HttpOptions::default() };
    let node = Listening::start(&database, &options).await;
    let path = node.api.submit("direct").await;
    let mut waiting = Vec::new();
    for waiters in 1..=2 {
        waiting.push(get_waiting(&node.api, &path, 60));
        node.until_waiting(waiters).await;
    }

    // The only place for calls is free, and one more who would wait is not refused.
    assert_eq!(node.api.get(&path).await.status, 202);
    let beyond = get_waiting(&node.api, &path, 60).await.unwrap();
    assert_eq!(beyond.status, 202);
    assert_eq!(beyond.header("preference-applied"), "");
    assert!(beyond.retry_after() >= 1);

    // Cancelled through this very node, which tells its own waiters.
    assert_eq!(node.api.delete(&path).await.status, 200);
    for answered in waiting {
        let answered = answered.await.unwrap();
        assert_eq!(answered.status, 200);
        assert_eq!(answered.body["error"]["code"], "cancelled");
    }
}
