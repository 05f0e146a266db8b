//! What a transaction offers for its gas (EIP-1559).

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use alloy::{consensus::BlockHeader, eips::BlockNumberOrTag, primitives::U128, rpc::types::Header};

use super::{Chain, RpcCall, RpcError};

/// A suggestion is not older than this, even if no newer block is known.
const FRESH: Duration = Duration::from_secs(2);

/// The bounds of what transactions offer, in wei per gas.
#[derive(Clone, Copy, Debug)]
pub struct FeeBounds {
    /// The least fee and tip.
    pub floor: u128,
    /// The greatest fee and tip.
    pub cap: u128,
    /// The tip, if the chain is not to be asked for it.
    pub tip: Option<u128>,
}

impl Default for FeeBounds {
    /// From one wei to 1,000 gwei.
    fn default() -> FeeBounds {
        FeeBounds { floor: 1, cap: 1_000_000_000_000, tip: None }
    }
}

/// What a transaction offers, in wei per gas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fees {
    /// The most that it pays in all.
    pub max_fee: u128,
    /// The part of it for the block's maker.
    pub tip: u128,
    /// The base fee of the block that the suggestion follows.
    pub base_fee: u128,
    /// The number of that block.
    pub block: u64,
}

impl FeeBounds {
    /// Twice the base fee and the tip, within the bounds.
    fn fees(&self, base_fee: u128, tip: u128, block: u64) -> Fees {
        let within = |fee: u128| fee.max(self.floor).min(self.cap);
        let tip = within(tip);
        Fees { max_fee: within(base_fee.saturating_mul(2).saturating_add(tip)), tip, base_fee, block }
    }
}

/// The bounds of a chain's fees, and the last suggestion.
#[derive(Default)]
pub(crate) struct FeeSource {
    bounds: FeeBounds,
    last: Mutex<Option<(Instant, Fees)>>,
}

impl Chain {
    /// The same chain, whose suggestions keep these bounds.
    #[must_use]
    pub fn with_fee_bounds(mut self, bounds: FeeBounds) -> Chain {
        self.fees = std::sync::Arc::new(FeeSource { bounds, last: Mutex::default() });
        self
    }

    /// The bounds of this chain's fees.
    #[must_use]
    pub fn fee_bounds(&self) -> FeeBounds {
        self.fees.bounds
    }

    /// What a transaction should offer now: twice the base fee and the tip, within the bounds. Asked once per block.
    ///
    /// # Errors
    ///
    /// When no endpoint answers, or blocks have no base fee.
    pub async fn suggested_fees(&self) -> Result<Fees, RpcError> {
        let last = *self.fees.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((asked, fees)) = last
            && fees.block >= self.head()
            && asked.elapsed() < FRESH
        {
            return Ok(fees);
        }
        let bounds = self.fees.bounds;
        let mut calls = vec![RpcCall::new("eth_getBlockByNumber", (BlockNumberOrTag::Latest, false))];
        if bounds.tip.is_none() {
            calls.push(RpcCall::new("eth_maxPriorityFeePerGas", ()));
        }
        let answers = self.batch(&calls).await?;
        let mut answers = calls.iter().zip(answers);
        let (Some((call, header)), tip) = (answers.next(), answers.next()) else {
            return Err(RpcError::NoEndpoint(self.id()));
        };
        let header: Header = call.parse(&header?)?;
        let base_fee = header.base_fee_per_gas().ok_or(RpcError::Unexpected {
            method: "eth_getBlockByNumber",
            cause: "the block has no base fee".to_owned(),
        })?;
        let tip = match tip {
            Some((call, tip)) => call.parse::<U128>(&tip?)?.to(),
            None => bounds.tip.unwrap_or_default(),
        };
        let fees = bounds.fees(base_fee.into(), tip, header.number());
        *self.fees.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), fees));
        Ok(fees)
    }
}
