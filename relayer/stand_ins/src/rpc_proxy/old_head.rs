//! A chain that seems to be shorter than it is.

use alloy::primitives::U64;
use anyhow::Result;
use serde_json::{Value, json};

use super::Shared;

/// What to do with a call.
pub(super) enum Before {
    Forward,
    Answer(Value),
    Refuse(String),
}

/// The chain's newest block.
pub(super) async fn newest(shared: &Shared) -> Result<u64> {
    let call = json!({ "jsonrpc": "2.0", "id": 0, "method": "eth_blockNumber", "params": [] });
    let answer = shared.forward(&call).await?;
    Ok(number(&answer["result"]).unwrap_or(0))
}

/// Changes a call so that nothing after `head` is asked for.
pub(super) fn before(call: &mut Value, head: u64) -> Before {
    match call["method"].as_str() {
        Some("eth_blockNumber") => Before::Answer(json!(U64::from(head))),
        Some("eth_getBlockByNumber") => {
            let block = &mut call["params"][0];
            match number(block) {
                Some(number) if number > head => Before::Answer(Value::Null),
                None if *block == "latest" || *block == "pending" => {
                    *block = json!(U64::from(head));
                    Before::Forward
                }
                _ => Before::Forward,
            }
        }
        Some("eth_getLogs") => {
            let filter = &mut call["params"][0];
            if let Some(from) = number(&filter["fromBlock"]).filter(|from| *from > head) {
                return Before::Refuse(format!(
                    "BlockOutOfRangeError: block height is {head} but requested was {from}"
                ));
            }
            if number(&filter["toBlock"]).is_none_or(|to| to > head) && filter["blockHash"].is_null() {
                filter["toBlock"] = json!(U64::from(head));
            }
            Before::Forward
        }
        _ => Before::Forward,
    }
}

/// Hides a transaction or a receipt of a later block.
pub(super) fn after(answer: &mut Value, head: u64) {
    if number(&answer["result"]["blockNumber"]).is_some_and(|block| block > head) {
        answer["result"] = Value::Null;
    }
}

/// How many blocks a call wants logs of.
pub(super) fn range(call: &Value) -> Option<u64> {
    let filter = &call["params"][0];
    Some(number(&filter["toBlock"])? - number(&filter["fromBlock"])? + 1)
}

fn number(value: &Value) -> Option<u64> {
    serde_json::from_value::<U64>(value.clone()).ok().map(|number| number.to())
}
