//! JSON-RPC for stand-ins and tests: one endpoint, and each failure ends the call.

use std::time::Duration;

use alloy::primitives::{B256, Bytes, hex};
use alloy::rpc::types::TransactionReceipt;
use anyhow::{Context as _, bail};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use url::Url;

/// A node.
#[derive(Clone, Debug)]
pub struct Rpc {
    url: Url,
    client: reqwest::Client,
}

/// What a node answered instead of a result.
#[derive(Clone, Debug, Deserialize)]
pub struct NodeError {
    /// The code of JSON-RPC.
    pub code: i64,
    /// The node's text.
    pub message: String,
    /// The data of a revert, where the node adds it.
    pub data: Option<Value>,
}

impl NodeError {
    /// The bytes that a contract reverted with.
    pub fn revert_data(&self) -> Option<Bytes> {
        hex::decode(self.data.as_ref()?.as_str()?).ok().map(Into::into)
    }
}

impl std::fmt::Display for NodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for NodeError {}

#[derive(Deserialize)]
struct Answer {
    id: Option<usize>,
    #[serde(default)]
    result: Value,
    error: Option<NodeError>,
}

impl Rpc {
    /// The node at a URL.
    pub fn new(url: Url) -> Rpc {
        Rpc { url, client: reqwest::Client::new() }
    }

    /// Where the node is.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Calls a method.
    ///
    /// # Errors
    ///
    /// When the node cannot be reached, or with a [`NodeError`].
    pub async fn call<T: DeserializeOwned>(&self, method: &str, params: impl Serialize) -> anyhow::Result<T> {
        let body = json!({"jsonrpc": "2.0", "id": 0, "method": method, "params": params});
        let answer: Answer = self.post(&body).await.with_context(|| format!("{method} at {}", self.url))?;
        match answer.error {
            Some(error) => Err(anyhow::Error::new(error).context(format!("{method} at {}", self.url))),
            None => serde_json::from_value(answer.result).with_context(|| format!("the result of {method}")),
        }
    }

    /// Calls methods in one batch. The answers are in the order of the calls.
    ///
    /// # Errors
    ///
    /// When the node cannot be reached, or leaves an answer out.
    pub async fn batch(&self, calls: &[(&str, Value)]) -> anyhow::Result<Vec<Result<Value, NodeError>>> {
        if calls.is_empty() {
            return Ok(Vec::new());
        }
        let body: Value = (0_usize..)
            .zip(calls)
            .map(|(id, (method, params))| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .collect();
        let mut answers: Vec<Answer> = self.post(&body).await?;
        answers.sort_by_key(|answer| answer.id);
        if answers.len() != calls.len() {
            bail!("{} answers to a batch of {} calls", answers.len(), calls.len());
        }
        Ok(answers.into_iter().map(|answer| answer.error.map_or(Ok(answer.result), Err)).collect())
    }

    /// The receipt of a transaction, once it is mined.
    ///
    /// # Errors
    ///
    /// When it is not mined within 20 s.
    pub async fn mined(&self, hash: B256) -> anyhow::Result<TransactionReceipt> {
        let receipt = async {
            loop {
                // An anvil that mines by itself answers a send before it mines.
                if let Some(receipt) = self.call::<Option<_>>("eth_getTransactionReceipt", [hash]).await? {
                    return Ok(receipt);
                }
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_secs(20), receipt).await.with_context(|| format!("transaction {hash} is not mined"))?
    }

    async fn post<T: DeserializeOwned>(&self, body: &Value) -> anyhow::Result<T> {
        Ok(self.client.post(self.url.clone()).json(body).send().await?.json().await?)
    }
}
