//! Calls that read.

use alloy::{
    consensus::BlockHeader,
    eips::BlockNumberOrTag,
    primitives::{Address, B256, Bytes, U64},
    rpc::types::{Filter, Header, Log, TransactionReceipt, TransactionRequest},
};
use futures_util::{StreamExt, future::join_all, stream::FuturesUnordered};
use serde::{Serialize, de::DeserializeOwned};

use super::{Chain, Endpoint, Endpoints, RpcCall, RpcError};
use crate::node_error::Class;

/// A call of a contract: sender, recipient, input, and what else a transaction has.
pub type CallRequest = TransactionRequest;

/// Why a call of a contract has no result.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CallError {
    /// The contract reverts. The bytes are what it returns, empty if it returns nothing.
    #[error("the contract reverts, with {} bytes", .0.len())]
    Reverted(Bytes),
    /// The call could not be made.
    #[error(transparent)]
    Rpc(RpcError),
}

impl From<RpcError> for CallError {
    fn from(error: RpcError) -> CallError {
        match &error {
            RpcError::Refused { error: node, .. } => match node.revert_data() {
                Some(data) => CallError::Reverted(data),
                None => CallError::Rpc(error),
            },
            _ => CallError::Rpc(error),
        }
    }
}

impl Endpoints {
    /// Makes one call.
    pub(super) async fn ask<T: DeserializeOwned>(&self, of: &Endpoint, call: &RpcCall) -> Result<T, RpcError> {
        let answers = self.post(of, std::slice::from_ref(call)).await;
        let answer = answers.and_then(|mut answers| answers.remove(0));
        of.note(&answer);
        let value = answer.and_then(|value| call.parse(&value));
        value.inspect_err(|error| of.count(error))
    }

    /// Calls the second of two methods on an endpoint that the first, `eth_blockNumber`, shows at `reached` or past it.
    async fn find_on<T: DeserializeOwned>(
        &self,
        endpoint: &Endpoint,
        calls: &[RpcCall; 2],
        reached: u64,
    ) -> Result<Option<T>, RpcError> {
        let answers = self.post(endpoint, calls).await;
        endpoint.note(&answers);
        let mut answers = answers.inspect_err(|error| endpoint.count(error))?;
        let found: Option<T> = calls[1].parse(&answers.remove(1)?)?;
        let head: u64 = calls[0].parse::<U64>(&answers.remove(0)?)?.to();
        if found.is_none() && head < reached {
            return Err(RpcError::Behind { endpoint: endpoint.name.clone(), block: reached });
        }
        Ok(found)
    }
}

impl Chain {
    /// Calls a method that reads.
    ///
    /// A revert is an answer. After any other error the next endpoint is asked.
    ///
    /// # Errors
    ///
    /// When no endpoint has a result: the last one's error.
    pub async fn read<T: DeserializeOwned>(&self, method: &'static str, params: impl Serialize) -> Result<T, RpcError> {
        let call = RpcCall::new(method, params);
        let mut last = RpcError::NoEndpoint(self.id());
        for endpoint in self.endpoints.current() {
            match self.endpoints.ask(endpoint, &call).await {
                Err(error) if error.class() != Class::Revert => last = error,
                outcome => return outcome,
            }
        }
        Err(last)
    }

    /// Calls a method that reads on every endpoint, also on those that fail at present, and returns all answers.
    pub async fn read_everywhere<T: DeserializeOwned>(
        &self,
        method: &'static str,
        params: impl Serialize,
    ) -> Vec<Result<T, RpcError>> {
        let call = RpcCall::new(method, params);
        join_all(self.endpoints.of_chain().map(|endpoint| self.endpoints.ask(endpoint, &call))).await
    }

    /// Searches every endpoint for what `method` answers with, or with `null` where it is absent.
    ///
    /// Returns the first that is found. It is absent only if every endpoint that answers says so, and each has reached
    /// the block `reached`.
    ///
    /// # Errors
    ///
    /// When it was not found, and its absence is not certain: no endpoint answers, or one is behind `reached`.
    pub async fn find<T: DeserializeOwned>(
        &self,
        method: &'static str,
        params: impl Serialize,
        reached: u64,
    ) -> Result<Option<T>, RpcError> {
        let calls = [RpcCall::new("eth_blockNumber", ()), RpcCall::new(method, params)];
        let mut answers: FuturesUnordered<_> =
            self.endpoints.of_chain().map(|endpoint| self.endpoints.find_on(endpoint, &calls, reached)).collect();
        let mut absent = false;
        let mut unanswered = RpcError::NoEndpoint(self.id());
        let mut behind = None;
        while let Some(answer) = answers.next().await {
            match answer {
                Ok(Some(found)) => return Ok(Some(found)),
                Ok(None) => absent = true,
                Err(error) if error.is_unreachable() => unanswered = error,
                Err(error) => behind = Some(error),
            }
        }
        match behind {
            Some(error) => Err(error),
            None if absent => Ok(None),
            None => Err(unanswered),
        }
    }

    /// The number of the newest block.
    ///
    /// # Errors
    ///
    /// When no endpoint answers.
    pub async fn block_number(&self) -> Result<u64, RpcError> {
        Ok(self.read::<U64>("eth_blockNumber", ()).await?.to())
    }

    /// The header of a block, if the endpoint that is asked has it.
    ///
    /// # Errors
    ///
    /// When no endpoint answers.
    pub async fn header(&self, at: BlockNumberOrTag) -> Result<Option<Header>, RpcError> {
        self.read("eth_getBlockByNumber", (at, false)).await
    }

    /// The number of the newest final block; `None` on a chain without that tag.
    ///
    /// # Errors
    ///
    /// When no endpoint answers, or there is no final block yet.
    pub async fn finalized(&self) -> Result<Option<u64>, RpcError> {
        match self.header(BlockNumberOrTag::Finalized).await {
            Ok(header) => Ok(header.map(|header| header.number())),
            Err(error) if error.class() == Class::BadBytes => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// How many transactions an account has sent, up to a block or with those that wait (`pending`).
    ///
    /// # Errors
    ///
    /// When no endpoint answers.
    pub async fn transaction_count(&self, of: Address, at: BlockNumberOrTag) -> Result<u64, RpcError> {
        Ok(self.read::<U64>("eth_getTransactionCount", (of, at)).await?.to())
    }

    /// The receipts of transactions, in their order; `None` where the endpoint that is asked has none, or refuses one of
    /// several.
    ///
    /// # Errors
    ///
    /// When no endpoint answers, or none has a receipt and one is refused.
    pub async fn receipts(&self, of: &[B256]) -> Result<Vec<Option<TransactionReceipt>>, RpcError> {
        let calls: Vec<_> = of.iter().map(|hash| RpcCall::new("eth_getTransactionReceipt", (hash,))).collect();
        let mut refused = None;
        let mut receipts = Vec::new();
        for (call, answer) in calls.iter().zip(self.batch(&calls).await?) {
            receipts.push(match answer {
                Ok(receipt) => call.parse(&receipt)?,
                Err(error) => {
                    refused = Some(error);
                    None
                }
            });
        }
        match refused.filter(|_| receipts.iter().all(Option::is_none)) {
            Some(error) => Err(error),
            None => Ok(receipts),
        }
    }

    /// The logs that a filter admits. A node that is behind the filter's last block answers with what it has.
    ///
    /// # Errors
    ///
    /// When no endpoint answers, or each finds the range or the result too large.
    pub async fn logs(&self, filter: &Filter) -> Result<Vec<Log>, RpcError> {
        self.read("eth_getLogs", (filter,)).await
    }

    /// Calls a contract without a transaction. An address without code returns nothing rather than to revert.
    ///
    /// # Errors
    ///
    /// When the contract reverts, or no endpoint answers.
    pub async fn call(&self, call: &CallRequest, at: BlockNumberOrTag) -> Result<Bytes, CallError> {
        Ok(self.read("eth_call", (call, at)).await?)
    }

    /// The gas that a transaction would use after the newest block. Some nodes count their pool otherwise, of which
    /// nothing says that it is mined before this transaction.
    ///
    /// # Errors
    ///
    /// When the contract reverts, the sender cannot pay, or no endpoint answers.
    pub async fn estimate_gas(&self, call: &CallRequest) -> Result<u64, CallError> {
        Ok(self.read::<U64>("eth_estimateGas", (call, BlockNumberOrTag::Latest)).await?.to())
    }
}
