//! An endpoint in front of a chain that misbehaves by rules: it delays, breaks off, refuses, lies.

mod old_head;

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use alloy::primitives::{Bytes, keccak256};
use anyhow::{Context, Result};
use axum::{
    Router,
    body::Body,
    extract::{DefaultBodyLimit, State},
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::post,
};
use futures_util::stream;
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};
use tokio::{net::TcpListener, time::sleep};
use tokio_util::sync::{CancellationToken, DropGuard};
use url::Url;

/// What happens to a call. Of a batch, each call has its own faults; those of the connection hit the whole batch.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The call waits before anything else happens.
    Delay(Duration),
    /// The connection breaks off before the chain has the call.
    DropBefore,
    /// The connection breaks off after the chain has answered.
    DropAfter,
    /// The connection breaks off in the middle of the answer.
    CloseMidBody,
    /// The HTTP status instead of an answer; the chain does not get the call.
    Status(u16),
    /// An error instead of an answer; the chain does not get the call.
    Refuse(i64, &'static str),
    /// This result; the chain does not get the call.
    Answer(Value),
    /// The chain seems to be so many blocks shorter.
    OldHead(u64),
    /// Logs of no more than so many blocks at once; more are refused.
    LimitRange(u64),
    /// No logs.
    OmitLogs,
    /// Every log twice.
    RepeatLogs,
    /// The answers of a batch in reversed order.
    Reverse,
    /// A transaction's hash, as if it had been accepted; the chain does not get it.
    Swallow,
}

/// When a fault happens.
#[derive(Clone, Debug)]
pub struct Rule {
    method: Option<&'static str>,
    fault: Fault,
    containing: String,
    rate: f64,
    times: Option<u64>,
}

impl Rule {
    /// The fault happens to every call of a method.
    #[must_use]
    pub fn new(method: &'static str, fault: Fault) -> Rule {
        Rule { method: Some(method), ..Rule::all(fault) }
    }

    /// The fault happens to every call.
    #[must_use]
    pub fn all(fault: Fault) -> Rule {
        Rule { method: None, fault, containing: String::new(), rate: 1.0, times: None }
    }

    /// Only to calls whose parameters contain a text.
    #[must_use]
    pub fn containing(mut self, text: impl Into<String>) -> Rule {
        self.containing = text.into();
        self
    }

    /// Only to this share of the calls, by chance.
    #[must_use]
    pub fn rate(mut self, rate: f64) -> Rule {
        self.rate = rate;
        self
    }

    /// Only so often.
    #[must_use]
    pub fn times(mut self, times: u64) -> Rule {
        self.times = Some(times);
        self
    }
}

/// The endpoint. It ends when this is dropped.
#[derive(Debug)]
pub struct RpcProxy {
    url: Url,
    shared: Arc<Shared>,
    _end: DropGuard,
}

#[derive(Debug)]
struct Shared {
    chain: Url,
    client: reqwest::Client,
    ended: CancellationToken,
    script: Mutex<Script>,
}

#[derive(Debug)]
struct Script {
    rules: Vec<Rule>,
    random: StdRng,
    calls: HashMap<String, u64>,
    faults: u64,
}

impl RpcProxy {
    /// Starts an endpoint in front of a chain, without rules. The seed decides what happens by chance.
    ///
    /// # Errors
    ///
    /// When it cannot listen.
    pub async fn start(chain: &Url, seed: u64) -> Result<RpcProxy> {
        let shared = Arc::new(Shared {
            chain: chain.clone(),
            client: reqwest::Client::builder().no_proxy().build()?,
            ended: CancellationToken::new(),
            script: Mutex::new(Script {
                rules: Vec::new(),
                random: StdRng::seed_from_u64(seed),
                calls: HashMap::new(),
                faults: 0,
            }),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.context("the proxy cannot listen")?;
        let url = Url::parse(&format!("http://{}", listener.local_addr()?))?;
        let router =
            Router::new().route("/", post(serve)).layer(DefaultBodyLimit::disable()).with_state(Arc::clone(&shared));
        let ended = shared.ended.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = ended.cancelled() => {}
                served = axum::serve(listener, router) => drop(served),
            }
        });
        Ok(RpcProxy { url, _end: shared.ended.clone().drop_guard(), shared })
    }

    /// Where it serves JSON-RPC.
    #[must_use]
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Adds a rule to those in force. A call meets every rule that is for it, in their order.
    pub fn add(&self, rule: Rule) {
        self.shared.script().rules.push(rule);
    }

    /// Removes all rules.
    pub fn clear(&self) {
        self.shared.script().rules.clear();
    }

    /// How many calls of a method came, those in batches too.
    #[must_use]
    pub fn calls(&self, method: &str) -> u64 {
        self.shared.script().calls.get(method).copied().unwrap_or(0)
    }

    /// How often a fault has happened.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.shared.script().faults
    }
}

impl Shared {
    fn script(&self) -> std::sync::MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn forward(&self, calls: &Value) -> Result<Value> {
        let answer = self.client.post(self.chain.clone()).json(calls).send().await?;
        Ok(answer.json().await?)
    }
}

impl Script {
    /// The faults of a call.
    fn faults_of(&mut self, call: &Value) -> Vec<Fault> {
        let method = call["method"].as_str().unwrap_or_default();
        let params = call["params"].to_string();
        *self.calls.entry(method.to_owned()).or_default() += 1;
        let mut faults = Vec::new();
        for rule in &mut self.rules {
            let meant = rule.method.is_none_or(|of| of == method) && params.contains(&rule.containing);
            if meant && rule.times != Some(0) && self.random.random_bool(rule.rate) {
                rule.times = rule.times.map(|times| times - 1);
                self.faults += 1;
                faults.push(rule.fault.clone());
            }
        }
        faults
    }
}

async fn serve(State(shared): State<Arc<Shared>>, body: axum::body::Bytes) -> Response {
    match answer(&shared, &body).await {
        // The connections outlive the listener.
        _ if shared.ended.is_cancelled() => break_off(String::new()),
        Ok(response) => response,
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}

async fn answer(shared: &Shared, body: &[u8]) -> Result<Response> {
    let body: Value = serde_json::from_slice(body)?;
    let is_batch = body.is_array();
    let mut calls = match body {
        Value::Array(calls) => calls,
        call => vec![call],
    };
    let faults: Vec<_> = calls.iter().map(|call| shared.script().faults_of(call)).collect();
    for fault in faults.iter().flatten() {
        match fault {
            Fault::Delay(delay) => sleep(*delay).await,
            Fault::DropBefore => return Ok(break_off(String::new())),
            Fault::Status(status) => return Ok(StatusCode::from_u16(*status)?.into_response()),
            _ => {}
        }
    }
    let mut answers = Vec::new();
    for (call, faults) in calls.iter_mut().zip(&faults) {
        answers.push(answer_one(shared, call, faults).await?);
    }
    let has = |wanted: fn(&Fault) -> bool| faults.iter().flatten().any(wanted);
    if has(|fault| matches!(fault, Fault::DropAfter)) {
        return Ok(break_off(String::new()));
    }
    if has(|fault| matches!(fault, Fault::Reverse)) {
        answers.reverse();
    }
    let mut text = if is_batch { json!(answers) } else { answers.remove(0) }.to_string();
    if has(|fault| matches!(fault, Fault::CloseMidBody)) {
        text.truncate(text.len() / 2);
        return Ok(break_off(text));
    }
    Ok(([(CONTENT_TYPE, "application/json")], text).into_response())
}

/// The answer to one call: made here, or the chain's, changed.
async fn answer_one(shared: &Shared, call: &mut Value, faults: &[Fault]) -> Result<Value> {
    let id = call["id"].clone();
    let result = |result: Value| json!({ "jsonrpc": "2.0", "id": id, "result": result });
    let refusal =
        |code: i64, message: &str| json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } });
    let mut head = None;
    for fault in faults {
        match fault {
            Fault::Refuse(code, message) => return Ok(refusal(*code, message)),
            Fault::Answer(value) => return Ok(result(value.clone())),
            Fault::Swallow => {
                let raw: Bytes = serde_json::from_value(call["params"][0].clone())?;
                return Ok(result(json!(keccak256(raw))));
            }
            Fault::LimitRange(blocks) if old_head::range(call).is_some_and(|range| range > *blocks) => {
                return Ok(refusal(-32005, "query returned more than 10000 results"));
            }
            Fault::OldHead(behind) => {
                let newest = old_head::newest(shared).await?;
                let shown = newest.saturating_sub(*behind);
                match old_head::before(call, shown) {
                    old_head::Before::Forward => head = Some(shown),
                    old_head::Before::Answer(value) => return Ok(result(value)),
                    old_head::Before::Refuse(message) => return Ok(refusal(-32602, &message)),
                }
            }
            _ => {}
        }
    }
    let mut answer = shared.forward(call).await?;
    if let Some(head) = head {
        old_head::after(&mut answer, head);
    }
    for fault in faults {
        match (fault, answer["result"].as_array_mut()) {
            (Fault::OmitLogs, Some(logs)) => logs.clear(),
            (Fault::RepeatLogs, Some(logs)) => *logs = logs.iter().flat_map(|log| [log.clone(), log.clone()]).collect(),
            _ => {}
        }
    }
    Ok(answer)
}

/// An answer that ends too early.
fn break_off(text: String) -> Response {
    let broken = io::Error::new(io::ErrorKind::ConnectionAborted, "broken off by a rule");
    Body::from_stream(stream::iter([Ok(text), Err(broken)])).into_response()
}
