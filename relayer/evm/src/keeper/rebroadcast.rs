//! Sends again what is not mined.

use std::time::Duration;

use alloy::eips::BlockNumberOrTag;

use super::{Keeper, KeeperError, View};
use crate::{
    broadcast::{Reach, broadcast},
    metrics,
    store::OpenSlot,
};

/// What the pool lacks by its count of the wallet's transactions is sent after this time: all later ones wait for it.
const MISSING_AFTER: Duration = Duration::from_millis(250);

/// What no endpoint has taken is sent after this time: its owner broadcasts it at once, if it lives.
const UNSENT_AFTER: Duration = Duration::from_secs(1);

/// What an endpoint has taken is sent again after this time: some transactions vanish without an error.
const SENT_AFTER: Duration = Duration::from_secs(5);

/// What an endpoint has refused for its price or the wallet's funds is sent again after this time.
const REFUSED_AFTER: Duration = Duration::from_secs(10);

/// How many signed transactions, each of up to a megabyte, are in memory at once.
const AT_ONCE: usize = 64;

impl Keeper {
    /// Sends the newest bytes, lowest nonce first, of transactions that are signed or sent for a while and not mined;
    /// then what the pool lacks.
    pub(super) async fn rebroadcast(&self, view: &View) -> Result<(), KeeperError> {
        let is_due = |slot: &&OpenSlot| slot.age >= due_after(slot, false);
        let due: Vec<u64> = view.unmined().filter(is_due).map(|slot| slot.nonce).collect();
        self.send(&due).await?;
        metrics::rebroadcasts(&self.name, due.len());
        let lacks = |nonce| {
            let is_due = |slot: &OpenSlot| slot.nonce == nonce && slot.age >= due_after(slot, true);
            view.unmined().any(is_due)
        };
        // The view's count is older than its transactions: it says nothing of what was sent in between.
        let mut last = None;
        while lacks(view.pending) {
            let missing = self.chain.transaction_count(self.address(), BlockNumberOrTag::Pending).await?;
            if last >= Some(missing) || !lacks(missing) {
                break;
            }
            self.send(&[missing]).await?;
            metrics::rebroadcasts(&self.name, 1);
            last = Some(missing);
        }
        Ok(())
    }

    /// Sends the newest bytes of these nonces.
    pub(super) async fn send(&self, nonces: &[u64]) -> Result<(), KeeperError> {
        for nonces in nonces.chunks(AT_ONCE) {
            let newest = self.store.newest_raw(self.wallet, nonces).await?;
            let signed = newest.into_iter().map(|(_, hash, raw)| (hash, raw));
            broadcast(&self.chain, &self.store, signed.collect(), Reach::All).await;
        }
        Ok(())
    }
}

fn due_after(slot: &OpenSlot, is_missing: bool) -> Duration {
    match slot.answer.as_deref() {
        Some("fee_too_low" | "no_funds") => REFUSED_AFTER,
        _ if is_missing => MISSING_AFTER,
        _ if !slot.is_sent => UNSENT_AFTER,
        _ => SENT_AFTER,
    }
}
