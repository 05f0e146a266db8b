//! Signed transactions.

use alloy::primitives::{B256, Bytes};
use futures_util::future::join_all;

use super::{Chain, Endpoint, RpcCall, RpcError};
use crate::node_error::Class;

/// What the endpoints answered to a signed transaction.
#[derive(Clone, Debug)]
pub struct SendAnswer {
    /// What is certain now. [`Class::Accepted`] also stands for bytes that were in the pool already.
    pub class: Class,
    /// The endpoint's explanation; empty for accepted bytes.
    pub message: String,
}

impl Chain {
    /// Gives a signed transaction to the first healthy endpoint, and the same bytes to the next as long as nothing is
    /// certain.
    pub async fn send_raw(&self, raw: &Bytes) -> SendAnswer {
        let call = send(raw);
        let mut last = self.unsent();
        for endpoint in self.endpoints.healthy() {
            last = self.give(endpoint, &call).await;
            if !last.is_of_endpoint() {
                return last;
            }
        }
        last
    }

    /// Gives a signed transaction to every healthy endpoint, because one that accepts it may not forward it. Returns
    /// that it was accepted, if by any; else the first answer that is about the bytes.
    pub async fn send_raw_everywhere(&self, raw: &Bytes) -> SendAnswer {
        let call = send(raw);
        let sends = self.endpoints.healthy().map(|endpoint| self.give(endpoint, &call));
        let answers = join_all(sends).await.into_iter();
        let best = answers.min_by_key(|answer| (answer.class != Class::Accepted, answer.is_of_endpoint()));
        best.unwrap_or_else(|| self.unsent())
    }

    async fn give(&self, endpoint: &Endpoint, call: &RpcCall) -> SendAnswer {
        match self.endpoints.ask::<B256>(endpoint, call).await {
            Ok(_) => SendAnswer { class: Class::Accepted, message: String::new() },
            Err(error) => SendAnswer::refused(&error),
        }
    }

    fn unsent(&self) -> SendAnswer {
        SendAnswer::refused(&RpcError::NoEndpoint(self.id()))
    }
}

fn send(raw: &Bytes) -> RpcCall {
    RpcCall::new("eth_sendRawTransaction", (raw,))
}

impl SendAnswer {
    fn refused(error: &RpcError) -> SendAnswer {
        SendAnswer { class: error.class(), message: error.to_string() }
    }

    /// Whether the answer is about the endpoint rather than the bytes.
    fn is_of_endpoint(&self) -> bool {
        matches!(self.class, Class::Unknown | Class::Limited | Class::WrongChain | Class::NoMethod)
    }
}
