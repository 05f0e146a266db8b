//! The endpoints of one chain.
//!
//! Calls go to the first endpoint of the list that is healthy, and on to the next when one gives no answer. What an
//! endpoint says is its own view: only what must not be missed or forgotten is asked of all of them, or sent to all.

mod batch;
mod call;
pub mod fees;
mod health;
mod send;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use reqwest::{Client, StatusCode, redirect};
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::value::{RawValue, to_raw_value};
use url::Url;

pub use self::{
    call::{CallError, CallRequest},
    send::SendAnswer,
};
use self::{fees::FeeSource, health::Health};
use crate::node_error::{Class, NodeError};

/// How long an endpoint has for an answer.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(3);

/// The endpoints of one chain. Clones share them.
#[derive(Clone)]
pub struct Chain {
    endpoints: Arc<Endpoints>,
    pub(crate) fees: Arc<FeeSource>,
}

struct Endpoints {
    chain_id: u64,
    list: Vec<Endpoint>,
    client: Client,
    next_id: AtomicU64,
}

struct Endpoint {
    url: Url,
    /// Host and port: the rest of a URL may hold a key.
    name: String,
    health: Health,
}

/// Why a chain cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ChainError {
    /// The list of URLs is empty.
    #[error("chain {0} has no endpoint: name at least one URL")]
    NoUrl(u64),
    /// Every endpoint that answers is of another chain.
    #[error("no endpoint is of chain {chain}: {endpoint} is of chain {found}; correct its URL")]
    WrongChain {
        /// The chain that was asked for.
        chain: u64,
        /// An endpoint, by host and port.
        endpoint: String,
        /// The chain that it serves.
        found: u64,
    },
    /// The machine cannot make an HTTP client.
    #[error("cannot make an HTTP client: {0}")]
    Client(#[source] reqwest::Error),
}

/// Why a call has no result.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RpcError {
    /// The endpoint refused it.
    #[error("{endpoint} refused {method}: {error}")]
    Refused {
        /// The endpoint, by host and port.
        endpoint: String,
        /// The method.
        method: &'static str,
        /// The endpoint's error.
        error: NodeError,
    },
    /// The endpoint gave no answer, or none that can be read.
    #[error("{endpoint} did not answer {method}: {cause}")]
    NoAnswer {
        /// The endpoint, by host and port.
        endpoint: String,
        /// The method; of a batch, that of its first call.
        method: &'static str,
        /// What happened instead.
        cause: String,
    },
    /// The endpoint has not reached the block from which on its answer counts.
    #[error("{endpoint} has not reached block {block}")]
    Behind {
        /// The endpoint, by host and port.
        endpoint: String,
        /// The block that its answer needs.
        block: u64,
    },
    /// A result is not of the type that the method has.
    #[error("an endpoint answered {method} with an unexpected result: {cause}")]
    Unexpected {
        /// The method.
        method: &'static str,
        /// What is unexpected in it.
        cause: String,
    },
    /// No endpoint is healthy.
    #[error("no endpoint of chain {0} is healthy: check their URLs; they are asked again every two seconds")]
    NoEndpoint(u64),
}

impl RpcError {
    /// What the error says about the call.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            RpcError::Refused { error, .. } => error.class(),
            RpcError::Behind { .. } => Class::Behind,
            _ => Class::Unknown,
        }
    }

    /// Whether the chain could not be asked at all, which says nothing about the call.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        !matches!(self, RpcError::Refused { .. } | RpcError::Behind { .. })
    }
}

/// A call of a JSON-RPC method.
#[derive(Clone, Debug)]
pub struct RpcCall {
    method: &'static str,
    params: Box<RawValue>,
}

impl RpcCall {
    /// A call of `method` with these parameters: a tuple or an array.
    ///
    /// # Panics
    ///
    /// If the parameters are no JSON, which is so for maps whose keys are no texts.
    #[must_use]
    pub fn new(method: &'static str, params: impl Serialize) -> RpcCall {
        let params = to_raw_value(&params).expect("parameters are JSON");
        RpcCall { method, params }
    }

    /// Reads a result of this call.
    ///
    /// # Errors
    ///
    /// When it is not of this type.
    pub fn parse<T: DeserializeOwned>(&self, result: &RawValue) -> Result<T, RpcError> {
        serde_json::from_str(result.get())
            .map_err(|error| RpcError::Unexpected { method: self.method, cause: error.to_string() })
    }
}

#[derive(Serialize)]
struct Question<'a> {
    jsonrpc: &'static str,
    id: u64,
    method: &'static str,
    params: &'a RawValue,
}

#[derive(Deserialize)]
struct Answer {
    id: Option<u64>,
    #[serde(default, deserialize_with = "present")]
    result: Option<Box<RawValue>>,
    error: Option<NodeError>,
}

/// A `null` is a result too.
fn present<'a, D: Deserializer<'a>>(from: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(from).map(Some)
}

impl Chain {
    /// Connects to the endpoints of the chain `id`, in the order in which they are preferred.
    ///
    /// One that is of another chain is not used until it says otherwise; one that does not answer is asked again.
    ///
    /// # Errors
    ///
    /// When there is no URL, or the endpoints that answer are all of other chains.
    pub async fn connect(id: u64, urls: &[Url]) -> Result<Chain, ChainError> {
        if urls.is_empty() {
            return Err(ChainError::NoUrl(id));
        }
        let client = Client::builder()
            .user_agent(concat!("tidegate-evm/", env!("CARGO_PKG_VERSION")))
            // The URLs often hold a key.
            .no_proxy()
            .redirect(redirect::Policy::none())
            .timeout(TIMEOUT)
            .build()
            .map_err(ChainError::Client)?;
        let endpoints = Arc::new(Endpoints {
            chain_id: id,
            list: urls.iter().map(Endpoint::new).collect(),
            client,
            next_id: AtomicU64::new(1),
        });
        endpoints.survey().await;
        endpoints.of_this_chain()?;
        health::keep_surveying(&endpoints);
        let fees = Arc::new(FeeSource::default());
        Ok(Chain { endpoints, fees })
    }

    /// The id of the chain.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.endpoints.chain_id
    }
}

impl Endpoint {
    fn new(url: &Url) -> Endpoint {
        let host = url.host_str().unwrap_or_default();
        let name = match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        Endpoint { url: url.clone(), name, health: Health::default() }
    }

    fn no_answer(&self, method: &'static str, cause: impl fmt::Display) -> RpcError {
        RpcError::NoAnswer { endpoint: self.name.clone(), method, cause: cause.to_string() }
    }
}

impl Endpoints {
    /// Sends calls in one HTTP call to one endpoint, and returns their results in the same order.
    ///
    /// An error is that of the whole HTTP call.
    async fn post(&self, to: &Endpoint, calls: &[RpcCall]) -> Result<Vec<Result<Box<RawValue>, RpcError>>, RpcError> {
        let method = calls.first().map_or("", |call| call.method);
        let first_id = self.next_id.fetch_add(calls.len() as u64, Ordering::Relaxed);
        let questions: Vec<_> = (first_id..)
            .zip(calls)
            .map(|(id, call)| Question { jsonrpc: "2.0", id, method: call.method, params: &call.params })
            .collect();
        let call = self.client.post(to.url.clone());
        let call = match questions.as_slice() {
            [one] => call.json(one),
            many => call.json(many),
        };
        let no_answer = |error: reqwest::Error| to.no_answer(method, reason(&error.without_url()));
        let answer = call.send().await.map_err(no_answer)?;
        let status = answer.status();
        let body = answer.bytes().await.map_err(no_answer)?;
        let refused = |method, error| RpcError::Refused { endpoint: to.name.clone(), method, error };
        if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::PAYLOAD_TOO_LARGE) {
            return Err(refused(method, NodeError::limited(status.as_str())));
        }
        let answers = if body.starts_with(b"[") {
            serde_json::from_slice::<Vec<Answer>>(&body)
        } else {
            serde_json::from_slice(&body).map(|answer| vec![answer])
        };
        let answers = answers.map_err(|_| to.no_answer(method, format_args!("{status}, not JSON-RPC")))?;
        let mut results: Vec<_> =
            calls.iter().map(|call| Err(to.no_answer(call.method, "its answer is missing"))).collect();
        for answer in answers {
            let at = answer.id.and_then(|id| usize::try_from(id.checked_sub(first_id)?).ok());
            let Some(result) = at.and_then(|at| results.get_mut(at)) else {
                match answer.error {
                    // The node did not read the calls at all.
                    Some(error) if answer.id.is_none() => return Err(refused(method, error)),
                    _ => continue,
                }
            };
            let method = calls[at.unwrap_or_default()].method;
            *result = match (answer.error, answer.result) {
                (Some(error), _) => Err(refused(method, error)),
                (None, Some(value)) => Ok(value),
                (None, None) => Err(to.no_answer(method, "neither a result nor an error")),
            };
        }
        Ok(results)
    }
}

/// The innermost cause: the outer ones only say that a request failed.
fn reason(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return format!("no answer within {} s", TIMEOUT.as_secs());
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.endpoints.list.iter().map(|endpoint| &endpoint.name).collect();
        f.debug_struct("Chain").field("id", &self.id()).field("endpoints", &names).finish_non_exhaustive()
    }
}
