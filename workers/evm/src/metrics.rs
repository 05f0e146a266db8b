//! The figures of a process.

use std::time::Duration;

use metrics::{counter, gauge, histogram};

use crate::store::Wallet;

/// Counts an order of a wallet that is through.
pub(crate) fn outcome(wallet: &str, outcome: &'static str) {
    counter!("evm_tx_total", "wallet" => wallet.to_owned(), "outcome" => outcome).increment(1);
}

/// Records how long a step of an order took: `estimate`, `allocate`, `send` or `mine`.
pub(crate) fn step(step: &'static str, took: Duration) {
    histogram!("evm_tx_seconds", "step" => step).record(took);
}

/// Records how a wallet stands.
pub(crate) fn wallet(wallet: &Wallet) {
    let name = || wallet.name.clone();
    nonce(&wallet.name, "next", wallet.next_nonce);
    #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
    gauge!("evm_in_flight", "wallet" => name()).set(wallet.in_flight as f64);
    let hole = wallet.hole.unwrap_or_default();
    gauge!("evm_hole_seconds", "wallet" => name()).set(hole.as_secs_f64());
}

/// Records a nonce of a wallet: the `next` by the database, or the next by the `chain`.
pub(crate) fn nonce(wallet: &str, which: &'static str, nonce: u64) {
    #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
    gauge!("evm_nonce", "wallet" => wallet.to_owned(), "which" => which).set(nonce as f64);
}

/// Records the block up to which the logs of a chain were applied.
pub(crate) fn cursor(chain: u64, block: u64) {
    #[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
    gauge!("evm_cursor", "chain" => chain.to_string()).set(block as f64);
}

/// Records how many blocks a chain has dropped.
pub(crate) fn reorganised(chain: u64, depth: u64, block: u64) {
    #[expect(clippy::cast_precision_loss, reason = "a histogram is of floats")]
    histogram!("evm_reorg_depth", "chain" => chain.to_string()).record(depth as f64);
    cursor(chain, block);
}
