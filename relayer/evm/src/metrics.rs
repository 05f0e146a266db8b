//! The figures of a process.

use std::time::Duration;

use alloy::primitives::U256;
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
    hole(&wallet.name, wallet.hole);
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

/// Records for how long the lowest transaction of a wallet that is not mined has been signed without being sent.
pub(crate) fn hole(wallet: &str, hole: Option<Duration>) {
    let hole = hole.unwrap_or_default();
    gauge!("evm_hole_seconds", "wallet" => wallet.to_owned()).set(hole.as_secs_f64());
}

/// Records how long ago the lowest transaction of a wallet that is not mined was signed.
pub(crate) fn unmined(wallet: &str, unmined: Option<Duration>) {
    let unmined = unmined.unwrap_or_default();
    gauge!("evm_unmined_seconds", "wallet" => wallet.to_owned()).set(unmined.as_secs_f64());
}

/// Records what a wallet has of an asset: `native`, `token`, or `allowance` of the token.
pub(crate) fn balance(wallet: &str, asset: &'static str, balance: U256) {
    gauge!("evm_wallet_balance", "wallet" => wallet.to_owned(), "asset" => asset).set(f64::from(balance));
}

/// Counts versions with higher fees.
pub(crate) fn bumps(wallet: &str, count: usize) {
    counter!("evm_bumps_total", "wallet" => wallet.to_owned()).increment(count as u64);
}

/// Counts transactions that the keeper sent again.
pub(crate) fn rebroadcasts(wallet: &str, count: usize) {
    counter!("evm_rebroadcasts_total", "wallet" => wallet.to_owned()).increment(count as u64);
}

/// Counts a nonce that a foreign transaction has used.
pub(crate) fn lost(wallet: &str) {
    counter!("evm_lost_total", "wallet" => wallet.to_owned()).increment(1);
}
