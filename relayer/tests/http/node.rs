//! A node of the API in this process, its client, and bodies that it accepts.

use std::{collections::BTreeSet, io::Write, time::Duration};

use reqwest::{Client, header::HeaderMap};
use serde_json::{Value, json};
use tidegate::{
    RunningWorker, Stages, Tidegate,
    internals::{
        database::{PoolSettings, connect_lazily},
        store::Store,
    },
    request::Request,
    stage::{Check, Receipt, Sent},
};
use tidegate_fhevm::{
    config::{self, Config},
    http::{Relayer, credential},
    kinds,
    request::{Family, Payload},
};
use tidegate_node as engine;
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use url::Url;

use super::{
    schema,
    support::{TestDatabase, eventually},
};

pub const HANDLE: &str = "0x1c92b55f05ee16f6facd3a57d7d9365f7f233b30a1000000000000007a690500";
pub const OTHER_HANDLE: &str = "0x4ff5599bba65b9b6c4b79b93cf13bd64e8e91dbdb2010000000000007a690400";
pub const ADDRESS: &str = "0x63c6684e14e27dc59870c5595d574bd6ca5d6ac6";
pub const OTHER_ADDRESS: &str = "0x3f92107747fcccc58db838122c14149b1c6e5a81";

const CONFIG: &str = r#"
    [gateway]
    chain_id = 54321
    # Nothing listens there.
    http = ["http://127.0.0.1:1"]
    decryption = "0x63c6684e14e27dc59870c5595d574bd6ca5d6ac6"
    input_verification = "0x3f92107747fcccc58db838122c14149b1c6e5a81"

    [[host_chains]]
    chain_id = 31337
    http = ["http://127.0.0.1:1"]
    acl = "0x2551f5c609e466be6c27289440b08be0a5a7f96f"
"#;

/// A configuration file, with these lines before its sections.
pub fn config_file(lines: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(format!("{lines}\n{CONFIG}").as_bytes()).unwrap();
    file
}

/// A database with the kinds of the relayer.
pub async fn database() -> TestDatabase {
    let database = TestDatabase::uninitialised().await;
    let tidegate = Tidegate::from_pool(database.pool.clone());
    tidegate.migrate_with(&[tidegate_evm::migrations(), tidegate_fhevm::migrations()]).await.unwrap();
    kinds::init(&database.pool).await.unwrap();
    database
}

/// A store like that of a node: it does not wait long for a connection.
fn own_store(database: &TestDatabase) -> Store {
    let settings = PoolSettings { acquire_timeout: Duration::from_secs(2), ..PoolSettings::default() };
    Store::new(connect_lazily(&database.url, &settings).unwrap())
}

/// A worker that runs these stages for every kind, until it is dropped.
pub async fn work(
    database: &TestDatabase,
    check: impl Fn() -> Check + Clone + Send + Sync + 'static,
    send: impl Fn() -> Sent + Clone + Send + Sync + 'static,
) -> RunningWorker {
    let mut stages = Stages::new();
    for kind in kinds_of_families() {
        let (check, send) = (check.clone(), send.clone());
        if kind != Family::InputProof.kind() {
            stages = stages.check(kind, move |_: Request<Payload>| std::future::ready(check()));
        }
        stages = stages.send(kind, move |_: Request<Payload>| std::future::ready(send()));
    }
    Tidegate::from_pool(database.pool.clone()).worker(stages).start().await.unwrap()
}

/// The downstream has taken a request, and its response comes later.
pub fn taken() -> Sent {
    Sent::Receipt(Receipt::default())
}

fn kinds_of_families() -> BTreeSet<&'static str> {
    Family::ALL.into_iter().map(Family::kind).collect()
}

/// A node that serves until it is dropped.
pub struct Node {
    pub url: String,
    client: Client,
    _stop: DropGuard,
}

/// An answer, which has the form of the original's.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Value,
}

impl Answer {
    pub fn label(&self) -> &str {
        self.body["error"]["label"].as_str().unwrap_or_default()
    }

    /// The job of a submission that was accepted.
    pub fn job(&self) -> String {
        assert_eq!(self.status, 202, "{self:?}");
        self.body["result"]["jobId"].as_str().unwrap().to_owned()
    }

    pub fn retry_after(&self) -> u64 {
        self.headers["retry-after"].to_str().unwrap().parse().unwrap()
    }
}

impl Node {
    pub async fn start(database: &TestDatabase) -> Self {
        Self::start_with(database, "").await
    }

    /// With these lines in its configuration.
    pub async fn start_with(database: &TestDatabase, lines: &str) -> Self {
        Self::start_as(database, lines, None).await
    }

    /// Before an endpoint of the gateway.
    pub async fn start_at(database: &TestDatabase, gateway: &Url) -> Self {
        Self::start_as(database, "", Some(gateway)).await
    }

    async fn start_as(database: &TestDatabase, lines: &str, gateway: Option<&Url>) -> Self {
        let file = config_file(lines);
        let variables = gateway.map(|url| ("TIDEGATE_FHEVM__GATEWAY__HTTP".to_owned(), url.to_string()));
        let config = Config::load(Some(file.path()), variables.into_iter()).unwrap_or_else(|error| panic!("{error:#}"));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let stop = CancellationToken::new();
        let store = own_store(database);
        let keys = match config.keys {
            config::Keys::Off => engine::Keys::Off,
            config::Keys::Required => engine::Keys::Required,
        };
        let options = engine::NodeOptions::default().keys(keys).credentials(credential);
        let node = engine::Node::of_store(store.clone(), options);
        let routes = node.router();
        let router = Relayer::new(node, &store, &config).await.router(routes);
        tokio::spawn(engine::internals::serve(listener, router, stop.clone()));
        Self { url, client: Client::new(), _stop: stop.drop_guard() }
    }

    pub async fn post(&self, family: Family, body: &Value) -> Answer {
        self.post_text(family, body.to_string(), "application/json").await
    }

    pub async fn post_text(&self, family: Family, body: impl Into<reqwest::Body>, content_type: &str) -> Answer {
        let call = self.client.post(format!("{}{}", self.url, family.path()));
        let call = call.header("content-type", content_type).body(body);
        answer("POST", family.path(), call).await
    }

    pub async fn poll(&self, family: Family, job: &str) -> Answer {
        self.get(&format!("{}/{job}", family.path())).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        answer("GET", path, self.client.get(format!("{}{path}", self.url))).await
    }

    /// Polls until the request has ended.
    pub async fn wait(&self, family: Family, job: &str) -> Answer {
        eventually("the request has ended", || async { self.poll(family, job).await.status != 202 }).await;
        self.poll(family, job).await
    }
}

/// Sends a call, and checks the form of its answer.
pub async fn answer(method: &str, path: &str, call: reqwest::RequestBuilder) -> Answer {
    let answer = call.send().await.unwrap();
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    let body = answer.json().await.unwrap();
    schema::check(method, path, status, &headers, &body);
    Answer { status, headers, body }
}

/// A body that a family accepts.
pub fn body(family: Family) -> Value {
    let mut user = json!({
        "handleContractPairs": [{"handle": HANDLE, "contractAddress": ADDRESS}],
        "contractsChainId": "31337",
        "contractAddresses": [ADDRESS],
        "signature": "f3".repeat(65),
        "publicKey": "dd1d188490ed268e",
        "extraData": "0x00",
    });
    let more = match family {
        Family::InputProof => {
            return json!({
                "contractChainId": "0x7a69",
                "contractAddress": ADDRESS,
                "userAddress": OTHER_ADDRESS,
                "ciphertextWithInputVerification": "3adeb676b47ad813",
                "extraData": "0x00",
            });
        }
        Family::PublicDecrypt => return json!({"ciphertextHandles": [HANDLE, OTHER_HANDLE], "extraData": "0x00"}),
        Family::UserDecrypt => json!({
            "requestValidity": {"startTimestamp": "1700000000", "durationDays": "10"},
            "userAddress": OTHER_ADDRESS,
        }),
        Family::DelegatedUserDecrypt => json!({
            "startTimestamp": "1700000000",
            "durationDays": "10",
            "delegatorAddress": ADDRESS,
            "delegateAddress": OTHER_ADDRESS,
        }),
    };
    user.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    user
}

/// The same body with another value at a place.
pub fn with(family: Family, pointer: &str, value: Value) -> Value {
    let mut body = body(family);
    *body.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = value;
    body
}
