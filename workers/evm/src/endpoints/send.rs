//! Signed transactions.

use alloy::primitives::{B256, Bytes};

use super::{Chain, RpcCall, RpcError};
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
        let call = RpcCall::new("eth_sendRawTransaction", (raw,));
        let mut last = SendAnswer::refused(&RpcError::NoEndpoint(self.id()));
        for endpoint in self.endpoints.healthy() {
            match self.endpoints.ask::<B256>(endpoint, &call).await {
                Ok(_) => {
                    return SendAnswer {
                        class: Class::Accepted,
                        message: String::new(),
                    };
                }
                Err(error) => last = SendAnswer::refused(&error),
            }
            if !last.is_of_endpoint() {
                return last;
            }
        }
        last
    }
}

impl SendAnswer {
    fn refused(error: &RpcError) -> SendAnswer {
        SendAnswer {
            class: error.class(),
            message: error.to_string(),
        }
    }

    /// Whether the answer is about the endpoint rather than the bytes.
    fn is_of_endpoint(&self) -> bool {
        matches!(
            self.class,
            Class::Unknown | Class::Limited | Class::WrongChain | Class::NoMethod
        )
    }
}
