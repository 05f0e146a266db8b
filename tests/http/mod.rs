//! What callers, downstreams and load balancers see over HTTP: a real server, a real client.

mod access;
mod admin;
mod admin_requests;
mod advice;
mod batch;
mod callbacks;
mod connections;
mod document;
mod duplicates;
mod events;
mod fleet;
mod foreign;
mod gates;
mod grouping;
mod health;
mod limits;
mod lists;
mod metrics;
mod nodes;
mod numbers;
mod pages;
mod poll;
mod pools;
mod rate_limits;
mod refusals;
mod resolution;
mod responses;
mod revocation;
mod shutdown;
mod submit;
mod uncertain;
mod waiting;
mod waiting_many;

use std::net::SocketAddr;

use axum::Router;
use reqwest::{Client, RequestBuilder, StatusCode, header::HeaderMap};
use serde_json::{Value, json};
use sqlx::PgConnection;
use tidegate::internals::store::Store;
use tidegate_node::{ConnectionOptions, HttpOptions, Node, NodeOptions, internals::serve_within};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::support::{TestDatabase, eventually};

/// A server on a free port, and a client of it.
pub struct Api {
    address: SocketAddr,
    pub client: Client,
    shutdown: CancellationToken,
    served: JoinHandle<std::io::Result<()>>,
    _stop: DropGuard,
}

/// An answer, read whole.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    headers: HeaderMap,
    pub body: Value,
}

impl Api {
    pub async fn of(database: &TestDatabase) -> Self {
        Self::start(database.store.clone(), &HttpOptions::default()).await
    }

    pub async fn start(store: Store, options: &HttpOptions) -> Self {
        Self::start_within(store, options, ConnectionOptions::default()).await
    }

    async fn start_within(store: Store, options: &HttpOptions, connections: ConnectionOptions) -> Self {
        Self::serve(Node::of_store(store, NodeOptions::default().http(options.clone())).router(), connections).await
    }

    /// Without the work of the node.
    async fn of_node(node: &Node) -> Self {
        Self::serve(node.router(), ConnectionOptions::default()).await
    }

    async fn serve(router: Router, connections: ConnectionOptions) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shutdown = CancellationToken::new();
        let stopped = shutdown.clone();
        let served = tokio::spawn(async move { serve_within(listener, router, &connections, stopped).await });
        Self::of_server(address, shutdown, served)
    }

    fn of_server(address: SocketAddr, shutdown: CancellationToken, served: JoinHandle<std::io::Result<()>>) -> Self {
        Self {
            address,
            client: Client::builder().no_proxy().build().unwrap(),
            _stop: shutdown.clone().drop_guard(),
            shutdown,
            served,
        }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn posting(&self, path: &str, body: &Value) -> RequestBuilder {
        self.client.post(self.url(path)).json(body)
    }

    /// Posts text that need not be JSON, as JSON.
    async fn post_text(&self, path: &str, body: impl Into<reqwest::Body>) -> Answer {
        let posting = self.client.post(self.url(path));
        answer(posting.header("content-type", "application/json").body(body)).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        answer(self.posting(path, body)).await
    }

    async fn post_with_key(&self, path: &str, key: &str, body: &Value) -> Answer {
        answer(self.posting(path, body).header("idempotency-key", key)).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        answer(self.client.get(self.url(path))).await
    }

    pub async fn patch(&self, path: &str, body: &Value) -> Answer {
        answer(self.client.patch(self.url(path)).json(body)).await
    }

    async fn delete(&self, path: &str) -> Answer {
        answer(self.client.delete(self.url(path))).await
    }

    /// Submits a request that must be taken; returns its path.
    pub async fn submit(&self, kind: &str) -> String {
        let taken = self.post(&format!("/v1/{kind}"), &json!({"n": 1})).await;
        assert_eq!(taken.status, 202, "{taken:?}");
        taken.header("location").to_owned()
    }

    /// A connection of its own, for what a proper client would not send.
    async fn raw(&self, sent: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        stream
    }
}

impl Answer {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    fn retry_after(&self) -> u64 {
        self.header("retry-after").parse().unwrap()
    }

    /// Checks that this is a whole problem with this status and code.
    pub fn assert_problem(&self, status: u16, code: &str) {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.header("content-type"), "application/problem+json");
        assert_eq!(self.header("cache-control"), "no-store");
        assert_eq!(self.body["code"], code, "{self:?}");
        assert_eq!(self.body["status"], status);
        assert_eq!(self.body["type"], format!("urn:problem-type:tidegate:{code}"));
        for member in ["title", "detail"] {
            assert!(self.body[member].is_string(), "{member} of {self:?}");
        }
        assert!(self.body["retryable"].is_boolean());
        if status == 429 || status == 503 {
            assert!(self.retry_after() >= 1);
            assert_eq!(self.body["retry_after_seconds"], self.retry_after(), "{self:?}");
        } else {
            assert!(self.body.get("retry_after_seconds").is_none(), "{self:?}");
        }
    }

    pub fn detail(&self) -> &str {
        self.body["detail"].as_str().unwrap()
    }
}

/// What a call is answered with, which must be as the API's document says.
pub async fn answer(request: RequestBuilder) -> Answer {
    let (client, request) = request.build_split();
    let request = request.unwrap();
    let (method, path) = (request.method().clone(), request.url().path().to_owned());
    let response = client.execute(request).await.unwrap();
    let status = response.status();
    let headers = response.headers().clone();
    let text = response.text().await.unwrap();
    let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
    document::conformance::assert_documented(&method, &path, status, &headers, &body);
    Answer { status, headers, body }
}

/// All that a server says before it closes the connection.
async fn read_to_end(mut stream: TcpStream) -> String {
    let mut text = String::new();
    // A reset after the answer is the end, too.
    let _ = stream.read_to_string(&mut text).await;
    text
}

/// Holds every submission at its first statement until the session commits.
async fn hold_submissions(database: &TestDatabase) -> PgConnection {
    let mut session = database.session().await;
    sqlx::raw_sql("begin; lock table tidegate.kind, tidegate.submit_terms in access exclusive mode")
        .execute(&mut session)
        .await
        .unwrap();
    session
}

/// Waits until so many submissions are held. Readings of the gates, which are held as well, are not counted.
async fn until_submissions_wait(database: &TestDatabase, submissions: i64) {
    eventually("submissions wait for a lock", || async {
        database
            .number(
                "select count(*) from pg_stat_activity
                 where datname = current_database() and wait_event_type = 'Lock' and query like '%from tidegate.submit%'",
            )
            .await
            >= submissions
    })
    .await;
}

async fn let_go(mut session: PgConnection) {
    sqlx::raw_sql("commit").execute(&mut session).await.unwrap();
}
