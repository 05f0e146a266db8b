//! Blocks with their transactions, as far as every chain has them: some have types of transactions of their own.

use alloy::{
    eips::BlockNumberOrTag,
    primitives::{Address, B256, Bytes, U64, U128},
};
use serde::Deserialize;

use crate::{Chain, RpcCall, RpcError};

/// A block.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Body {
    pub(crate) number: U64,
    pub(crate) hash: B256,
    pub(crate) parent_hash: B256,
    pub(crate) timestamp: U64,
    pub(crate) transactions: Vec<BodyTransaction>,
}

/// A transaction in a block, or one that waits.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BodyTransaction {
    pub(crate) hash: B256,
    pub(crate) from: Address,
    pub(crate) to: Option<Address>,
    pub(crate) nonce: U64,
    pub(crate) input: Bytes,
    pub(crate) block_number: Option<U64>,
    pub(crate) gas: U64,
    gas_price: Option<U128>,
    max_fee_per_gas: Option<U128>,
    max_priority_fee_per_gas: Option<U128>,
}

impl BodyTransaction {
    /// The most that it pays per gas.
    pub(crate) fn max_fee(&self) -> u128 {
        self.max_fee_per_gas.or(self.gas_price).unwrap_or_default().to()
    }

    /// The part of it for the block's maker.
    pub(crate) fn tip(&self) -> u128 {
        self.max_priority_fee_per_gas.unwrap_or_default().to()
    }
}

/// The input may be secret.
impl std::fmt::Debug for BodyTransaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BodyTransaction")
            .field("hash", &self.hash)
            .field("from", &self.from)
            .field("nonce", &self.nonce)
            .finish_non_exhaustive()
    }
}

/// The blocks of these numbers; `None` where the endpoint that is asked has none.
pub(crate) async fn bodies(chain: &Chain, numbers: &[u64]) -> Result<Vec<Option<Body>>, RpcError> {
    let call = |number: &u64| RpcCall::new("eth_getBlockByNumber", (BlockNumberOrTag::Number(*number), true));
    let calls: Vec<_> = numbers.iter().map(call).collect();
    let answers = chain.batch(&calls).await?;
    calls.iter().zip(answers).map(|(call, answer)| call.parse(&answer?)).collect()
}
