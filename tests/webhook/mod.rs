//! Webhooks: each receiver gets the ends of its requests at least once, and no other receiver gets them.

mod allow_list;
mod at_once;
mod command_line;
mod delivery;
mod failures;
mod outbox;
mod plans;
mod reach;
mod resolved;
mod secrets;

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::HeaderMap,
    response::{IntoResponse, Response},
};
use serde_json::Value;
use tidegate::request::RequestId;
use tidegate_node::webhook::{self, Options};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::support::{TestDatabase, eventually};

/// What a receiver got.
#[derive(Debug, Clone)]
struct Received {
    headers: HeaderMap,
    body: Bytes,
}

impl Received {
    fn header(&self, name: &str) -> String {
        let value = self.headers.get(name);
        value.map_or_else(String::new, |value| value.to_str().unwrap().to_owned())
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Whether its signature verifies with this secret, now.
    fn is_signed_with(&self, secret: &str) -> bool {
        let webhook = standardwebhooks::Webhook::new(secret).unwrap();
        webhook.verify(&self.body, &self.headers).is_ok()
    }
}

type Reply = Box<dyn FnOnce() -> Response + Send>;

/// A receiver on a free port of loopback: notes what comes, and answers from a script, then 204.
struct Receiver {
    port: u16,
    received: Arc<Mutex<Vec<Received>>>,
    script: Arc<Mutex<VecDeque<Reply>>>,
    /// While closed, no call is answered.
    hold: tokio::sync::watch::Sender<bool>,
    server: JoinHandle<()>,
}

#[derive(Clone)]
struct Desk {
    received: Arc<Mutex<Vec<Received>>>,
    script: Arc<Mutex<VecDeque<Reply>>>,
    held: tokio::sync::watch::Receiver<bool>,
}

async fn receive(State(mut desk): State<Desk>, headers: HeaderMap, body: Bytes) -> Response {
    desk.received.lock().unwrap().push(Received { headers, body });
    let reply = desk.script.lock().unwrap().pop_front();
    let _ = desk.held.wait_for(|held| !held).await;
    match reply {
        Some(reply) => reply(),
        None => axum::http::StatusCode::NO_CONTENT.into_response(),
    }
}

impl Receiver {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (hold, held) = tokio::sync::watch::channel(false);
        let desk = Desk { received: Arc::default(), script: Arc::default(), held };
        let (received, script) = (Arc::clone(&desk.received), Arc::clone(&desk.script));
        let router = Router::new().fallback(receive).with_state(desk);
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { port, received, script, hold, server }
    }

    /// Listed as a private host, under its address.
    async fn allowed(database: &TestDatabase) -> Self {
        let receiver = Self::start().await;
        receiver.allow(database).await;
        receiver
    }

    async fn allow(&self, database: &TestDatabase) {
        let host = format!("127.0.0.1:{}", self.port);
        database.store.webhook_host_add(&host, true).await.unwrap();
    }

    /// It is known to answer, so that several deliveries may be under way to it.
    async fn has_answered(&self, database: &TestDatabase) {
        let answered = "insert into tidegate.webhook_answer (host_port, answers, at) values";
        database.execute(&format!("{answered} ('127.0.0.1:{}', true, now())", self.port)).await;
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/done", self.port)
    }

    /// Answers the next delivery that has no answer yet in this way.
    fn then(&self, reply: impl IntoResponse + Send + 'static) -> &Self {
        let mut script = self.script.lock().unwrap();
        script.push_back(Box::new(move || reply.into_response()));
        self
    }

    fn received(&self) -> Vec<Received> {
        self.received.lock().unwrap().clone()
    }

    fn count(&self) -> usize {
        self.received.lock().unwrap().len()
    }

    async fn until(&self, count: usize) -> Vec<Received> {
        eventually("the receiver got its deliveries", || async { self.count() >= count }).await;
        self.received()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// A running deliverer; aborted when dropped, as if its process were killed.
struct Deliverer {
    shutdown: CancellationToken,
    running: JoinHandle<()>,
}

impl Deliverer {
    fn of(database: &TestDatabase) -> Self {
        Self::with(database, Options::default())
    }

    fn with(database: &TestDatabase, options: Options) -> Self {
        let shutdown = CancellationToken::new();
        let running = tokio::spawn(webhook::run(database.store.clone(), options, shutdown.clone()));
        Self { shutdown, running }
    }

    async fn stop(mut self) {
        self.shutdown.cancel();
        (&mut self.running).await.unwrap();
    }
}

impl Drop for Deliverer {
    fn drop(&mut self) {
        self.running.abort();
    }
}

impl TestDatabase {
    /// A new `direct` request that tells `url`.
    async fn submit_telling(&self, url: &str) -> RequestId {
        let id = self.value(&format!("select id from tidegate.submit_with_callback('direct', '{{}}', '{url}')")).await;
        RequestId(id.parse::<Uuid>().unwrap())
    }

    /// A request that has ended (cancelled), with a delivery to make.
    async fn ended_telling(&self, url: &str) -> RequestId {
        let id = self.submit_telling(url).await;
        self.execute(&format!("select tidegate.cancel('{id}')")).await;
        id
    }

    /// A column of a request's delivery, as text; none when it has no delivery.
    async fn delivery(&self, id: RequestId, column: &str) -> Option<String> {
        self.column(&format!("select {column} from tidegate.webhook_delivery where request_id = '{id}'")).await.pop()
    }

    async fn until_delivery_is(&self, id: RequestId, state: &str) {
        eventually("the delivery is settled", || async { self.delivery(id, "state").await.as_deref() == Some(state) })
            .await;
    }

    /// Lets every backoff and every lease of a delivery end now.
    async fn all_due(&self) {
        self.execute("update tidegate.webhook_delivery set due_at = clock_timestamp() where state = 'pending'").await;
    }

    /// Backoffs of no time at all.
    async fn no_backoff(&self) {
        self.execute("update tidegate.webhook_policy set base_ms = 0, cap_ms = 0").await;
    }
}

/// A long moment in which nothing happens; the only way to see that nothing does.
async fn quiet() {
    tokio::time::sleep(Duration::from_millis(1200)).await;
}
