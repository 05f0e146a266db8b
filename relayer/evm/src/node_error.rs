//! What nodes answer to a call that they refuse, and what is certain after it.
//!
//! Nodes agree on neither codes nor texts, so an error is classified by a table: the first line whose text occurs in the
//! message decides, then the first whose code is equal. What no line matches is [`Class::Unknown`], after which nothing
//! is certain.

use std::{collections::HashMap, fmt};

use alloy::primitives::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

/// In how many objects, one in the other, an error's data is looked for.
const DEEPEST: usize = 8;

/// What an error of a node says about the transaction or the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// These bytes are in the pool.
    Accepted,
    /// A transaction with this nonce is mined in this endpoint's view.
    NonceTooLow,
    /// These bytes were not kept: the transaction before them is missing.
    NonceTooHigh,
    /// Another transaction with this nonce is in the pool.
    Replaced,
    /// These bytes were not kept: the block's base fee or the pool's least fee is higher.
    FeeTooLow,
    /// These bytes were not kept: the sender cannot pay for gas.
    NoFunds,
    /// These bytes were not kept: the gas limit is too low for any transaction, or too high for a block.
    Gas,
    /// The endpoint is of another chain.
    WrongChain,
    /// The call reverts.
    Revert,
    /// The call needs more gas than a block or the sender's balance allows.
    OutOfGas,
    /// The transaction is larger than any endpoint accepts.
    TooLarge,
    /// The endpoint refuses more calls, or larger ones, for a time.
    Limited,
    /// The bytes are no transaction.
    BadBytes,
    /// The endpoint has not reached the block that the call names.
    Behind,
    /// The endpoint lacks the method.
    NoMethod,
    /// Nothing is certain: send the same bytes again, perhaps elsewhere; never a new nonce.
    Unknown,
}

use Class::{
    Accepted, BadBytes, Behind, FeeTooLow, Gas, Limited, NoFunds, NoMethod, NonceTooHigh, NonceTooLow, OutOfGas,
    Replaced, Revert, TooLarge, Unknown, WrongChain,
};

/// Texts in lower case, the more specific ones first.
const BY_TEXT: [(&str, Class); 31] = [
    ("replacement transaction underpriced", Replaced),
    ("already known", Accepted),
    ("already imported", Accepted),
    ("already exists", Accepted),
    ("transaction confirmation timeout", Accepted),
    ("nonce too low", NonceTooLow),
    ("nonce too high", NonceTooHigh),
    ("nonce gap", NonceTooHigh),
    ("max fee per gas less than block base fee", FeeTooLow),
    ("transaction underpriced", FeeTooLow),
    ("fee too low", FeeTooLow),
    ("gas required exceeds allowance", OutOfGas),
    ("insufficient funds", NoFunds),
    ("intrinsic gas too", Gas),
    ("exceeds block gas limit", Gas),
    ("gas limit too high", Gas),
    ("invalid chain id", WrongChain),
    ("execution reverted", Revert),
    ("vm execution error", Revert),
    ("oversized data", TooLarge),
    ("transaction size", TooLarge),
    ("failed to decode transaction", BadBytes),
    ("blockoutofrange", Behind),
    ("header not found", Behind),
    ("unknown block", Behind),
    ("rate limit", Limited),
    ("too many requests", Limited),
    ("request entity too large", Limited),
    ("invalid request", Limited),
    ("method not found", NoMethod),
    ("does not exist/is not available", NoMethod),
];

const BY_CODE: [(i64, Class); 6] =
    [(3, Revert), (4, Accepted), (-32005, Limited), (-32600, Limited), (-32601, NoMethod), (-32602, BadBytes)];

/// The error of a JSON-RPC answer.
#[derive(Clone, Debug, Deserialize)]
pub struct NodeError {
    /// The number that the node gives to errors like this one.
    #[serde(default)]
    pub code: i64,
    /// The node's explanation.
    #[serde(default)]
    pub message: String,
    /// More about it: of a revert, what the contract returned.
    #[serde(default)]
    pub data: Option<Box<RawValue>>,
}

impl NodeError {
    /// The error that stands for an HTTP status by which an endpoint refuses more calls, or larger ones.
    pub(crate) fn limited(status: &str) -> NodeError {
        NodeError { code: -32005, message: format!("rate limit: HTTP status {status}"), data: None }
    }

    /// What this error says.
    #[must_use]
    pub fn class(&self) -> Class {
        let message = self.message.to_lowercase();
        let by_text = BY_TEXT.iter().find(|(text, _)| message.contains(text)).map(|(_, class)| class);
        let by_code = || BY_CODE.iter().find(|(code, _)| *code == self.code).map(|(_, class)| class);
        *by_text.or_else(by_code).unwrap_or(&Unknown)
    }

    /// What the contract returned, if the call reverted; empty if it returned nothing.
    ///
    /// Read from `data`, a string or an object that has it; from the message only when there is no data.
    #[must_use]
    pub fn revert_data(&self) -> Option<Bytes> {
        if self.class() != Revert {
            return None;
        }
        let data = self.data.as_deref().and_then(hex_within);
        Some(data.or_else(|| hex_in_text(&self.message)).unwrap_or_default())
    }
}

/// Of a string, its bytes; of an object, those of its `data`. Nothing else in it is read, such as numbers.
fn hex_within(mut data: &RawValue) -> Option<Bytes> {
    for _ in 0..DEEPEST {
        if let Ok(text) = serde_json::from_str::<String>(data.get()) {
            return hex_in_text(&text);
        }
        let members: HashMap<String, &RawValue> = serde_json::from_str(data.get()).ok()?;
        data = members.get("data")?;
    }
    None
}

fn hex_in_text(text: &str) -> Option<Bytes> {
    let hex = &text[text.find("0x")?..];
    let end = hex[2..].find(|c: char| !c.is_ascii_hexdigit()).map_or(hex.len(), |at| at + 2);
    hex[..end].parse().ok()
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (code {})", self.message, self.code)
    }
}

impl Class {
    /// The name for metrics and for the column `evm.attempt.answer`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Accepted => "accepted",
            NonceTooLow => "nonce_too_low",
            NonceTooHigh => "nonce_too_high",
            Replaced => "replaced",
            FeeTooLow => "fee_too_low",
            NoFunds => "no_funds",
            Gas => "gas",
            WrongChain => "wrong_chain",
            Revert => "revert",
            OutOfGas => "out_of_gas",
            TooLarge => "too_large",
            Limited => "limited",
            BadBytes => "bad_bytes",
            Behind => "behind",
            NoMethod => "no_method",
            Unknown => "unknown",
        }
    }
}

#[cfg(test)]
mod tests;
