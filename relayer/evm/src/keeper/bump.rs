//! Raises the fees of transactions that are not mined for their price.

use alloy::{
    consensus::{TxEip1559, TxEnvelope},
    eips::Decodable2718,
    primitives::Bytes,
};
use chrono::{DateTime, Utc};

use super::{Keeper, KeeperError, View};
use crate::{
    fees::Fees,
    metrics,
    store::{OpenSlot, Version},
};

/// The lowest transaction that is not mined, from the step on that found it in a pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stuck {
    nonce: u64,
    n: i16,
    since: DateTime<Utc>,
    head: u64,
}

impl Keeper {
    /// Signs new versions with higher fees, at most once per block: of all transactions that are refused for their fees
    /// or offer less than the base fee, all at once; else of the lowest one, if it waits in a pool while blocks are made.
    pub(super) async fn bump(&self, epoch: i64, view: &View) -> Result<(), KeeperError> {
        let is_stuck = self.is_stuck(view);
        if self.memory().bumped_at >= view.head {
            return Ok(());
        }
        let priced_out =
            |slot: &&OpenSlot| slot.answer.as_deref() == Some("fee_too_low") || slot.max_fee < view.base_fee;
        let mut slots: Vec<&OpenSlot> = view.unmined().filter(priced_out).collect();
        if slots.is_empty() && is_stuck {
            slots.extend(view.unmined().next());
        }
        if slots.is_empty() {
            return Ok(());
        }
        let cap = self.chain.fee_bounds().cap;
        let fees = self.suggested(view).await?;
        let raised: Vec<_> =
            slots.iter().filter_map(|slot| Some((*slot, raised(slot.max_fee, slot.tip, fees, cap)?))).collect();
        if raised.len() < slots.len() {
            let (wallet, slots) = (&self.name, slots.len() - raised.len());
            tracing::error!(
                wallet,
                slots,
                cap,
                "transactions wait for lower fees: theirs cannot be raised within the cap"
            );
        }
        let nonces: Vec<_> = raised.iter().map(|(slot, _)| slot.nonce).collect();
        let newest = self.store.newest_raw(self.wallet, &nonces).await?;
        let mut versions = Vec::new();
        for ((slot, (max_fee, tip)), (_, _, raw)) in
            raised.iter().filter(|(slot, _)| newest.iter().any(|(nonce, ..)| *nonce == slot.nonce)).zip(&newest)
        {
            let transaction =
                TxEip1559 { max_fee_per_gas: *max_fee, max_priority_fee_per_gas: *tip, ..decoded(slot.nonce, raw)? };
            versions.push(self.version(slot, slot.is_filler, transaction).await?);
        }
        let stored = self.store_and_send(epoch, &versions).await?;
        self.memory().bumped_at = view.head;
        metrics::bumps(&self.name, stored);
        Ok(())
    }

    /// What a transaction should offer now. The last suggestion may be older than the block that the keeper has seen.
    pub(super) async fn suggested(&self, view: &View) -> Result<Fees, KeeperError> {
        let fees = self.chain.suggested_fees().await?;
        let max_fee = view.base_fee.saturating_mul(2).saturating_add(fees.tip);
        Ok(Fees { max_fee: fees.max_fee.max(max_fee.min(self.chain.fee_bounds().cap)), ..fees })
    }

    /// Whether the lowest transaction is in a pool for too long, while blocks are made.
    fn is_stuck(&self, view: &View) -> bool {
        let lowest = view.unmined().next();
        // A stranger's or an older version in its place is one reason more.
        let pooled = lowest.filter(|slot| matches!(slot.answer.as_deref(), Some("accepted" | "replaced")));
        let mut memory = self.memory();
        let Some(slot) = pooled else {
            memory.stuck = None;
            return false;
        };
        let known = memory.stuck.filter(|stuck| (stuck.nonce, stuck.n) == (slot.nonce, slot.n));
        let stuck = *memory.stuck.insert(known.unwrap_or(Stuck {
            nonce: slot.nonce,
            n: slot.n,
            since: view.wallet.at,
            head: view.head,
        }));
        let waited = (view.wallet.at - stuck.since).to_std().unwrap_or_default();
        waited >= self.options.stuck_after && view.head > stuck.head
    }

    /// The next version of a transaction.
    pub(super) async fn version(
        &self,
        slot: &OpenSlot,
        is_filler: bool,
        transaction: TxEip1559,
    ) -> Result<Version, KeeperError> {
        let (max_fee, tip) = (transaction.max_fee_per_gas, transaction.max_priority_fee_per_gas);
        let (hash, raw) = self.sign(transaction).await?;
        Ok(Version { nonce: slot.nonce, n: slot.n + 1, is_filler, hash, raw, max_fee, tip })
    }

    /// Stores versions, and sends what was stored. Returns how many were.
    pub(super) async fn store_and_send(&self, epoch: i64, versions: &[Version]) -> Result<usize, KeeperError> {
        if versions.is_empty() {
            return Ok(0);
        }
        let stored = self.store.sign_again(self.wallet, epoch, versions).await?;
        self.send(&stored).await?;
        Ok(stored.len())
    }
}

/// Both fees an eighth higher, which every pool takes for a replacement, and at least what is suggested now; `None` when
/// the cap does not allow it.
pub(super) fn raised(max_fee: u128, tip: u128, suggested: Fees, cap: u128) -> Option<(u128, u128)> {
    let eighth = |fee: u128| fee.saturating_add(fee.div_ceil(8));
    if eighth(max_fee) > cap {
        return None;
    }
    let max_fee = eighth(max_fee).max(suggested.max_fee).min(cap);
    Some((max_fee, eighth(tip).max(suggested.tip).min(max_fee)))
}

fn decoded(nonce: u64, raw: &Bytes) -> Result<TxEip1559, KeeperError> {
    let unreadable = |cause: String| KeeperError::Bytes(nonce, cause);
    match TxEnvelope::decode_2718(&mut raw.as_ref()).map_err(|error| unreadable(error.to_string()))? {
        TxEnvelope::Eip1559(signed) => Ok(signed.strip_signature()),
        other => Err(unreadable(format!("type {}", other.tx_type()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suggested(max_fee: u128, tip: u128) -> Fees {
        Fees { max_fee, tip, base_fee: 1, block: 1 }
    }

    #[test]
    fn both_fees_rise_by_an_eighth_at_least_and_to_the_suggestion() {
        assert_eq!(raised(80, 8, suggested(0, 0), 1000), Some((90, 9)));
        assert_eq!(raised(81, 9, suggested(0, 0), 1000), Some((92, 11)), "rounded up");
        assert_eq!(raised(80, 8, suggested(300, 20), 1000), Some((300, 20)));
        assert_eq!(raised(1, 0, suggested(0, 0), 1000), Some((2, 0)));
    }

    #[test]
    fn no_fee_passes_the_cap_and_no_smaller_step_is_taken() {
        assert_eq!(raised(80, 8, suggested(300, 20), 90), Some((90, 20)));
        assert_eq!(raised(80, 8, suggested(300, 95), 90), Some((90, 90)), "the tip is part of the fee");
        assert_eq!(raised(80, 8, suggested(300, 20), 89), None);
        assert_eq!(raised(u128::MAX, 8, suggested(0, 0), u128::MAX - 1), None);
    }
}
