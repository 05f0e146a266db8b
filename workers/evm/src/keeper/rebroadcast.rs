//! Sends again what is not mined.

use std::time::Duration;

use super::{Keeper, KeeperError, View};
use crate::{broadcast::broadcast, metrics, store::OpenSlot};

/// What no endpoint has taken is sent after this time: its owner broadcasts it at once, if it lives.
const UNSENT_AFTER: Duration = Duration::from_secs(1);

/// What an endpoint has taken is sent again after this time: some transactions vanish without an error.
const SENT_AFTER: Duration = Duration::from_secs(5);

/// The same, once per block, while blocks are made without the lowest transaction, for which all others wait.
const BLOCKED_AFTER: Duration = Duration::from_secs(1);

/// What an endpoint has refused for its price or the wallet's funds is sent again after this time.
const REFUSED_AFTER: Duration = Duration::from_secs(10);

/// How many signed transactions, each of up to a megabyte, are in memory at once.
const AT_ONCE: usize = 64;

impl Keeper {
    /// Sends the newest bytes, lowest nonce first, of transactions that are signed or sent for a while and not mined.
    pub(super) async fn rebroadcast(&self, view: &View) -> Result<(), KeeperError> {
        let lowest = view.unmined().next();
        let is_blocked = lowest.is_some_and(|slot| self.is_passed_over(view, slot));
        let is_due = |slot: &&OpenSlot| slot.age >= due_after(slot, is_blocked);
        let due: Vec<u64> = view.unmined().filter(is_due).map(|slot| slot.nonce).collect();
        self.send(&due).await?;
        metrics::rebroadcasts(&self.name, due.len());
        Ok(())
    }

    /// Sends the newest bytes of these nonces.
    pub(super) async fn send(&self, nonces: &[u64]) -> Result<(), KeeperError> {
        for nonces in nonces.chunks(AT_ONCE) {
            let newest = self.store.newest_raw(self.wallet, nonces).await?;
            let signed = newest.into_iter().map(|(_, hash, raw)| (hash, raw));
            broadcast(&self.chain, &self.store, signed.collect()).await;
        }
        Ok(())
    }
}

fn due_after(slot: &OpenSlot, is_blocked: bool) -> Duration {
    match slot.answer.as_deref() {
        Some("fee_too_low" | "no_funds") => REFUSED_AFTER,
        _ if !slot.is_sent => UNSENT_AFTER,
        _ if is_blocked => BLOCKED_AFTER,
        _ => SENT_AFTER,
    }
}
