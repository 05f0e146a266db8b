//! How orders are sent.

use std::time::Duration;

/// How a [`Sender`](super::Sender) works.
#[derive(Clone)]
#[non_exhaustive]
pub struct SenderOptions {
    /// How much more gas a transaction may use than was estimated: 1.2.
    pub gas_factor: f64,
    /// How long [`Sender::send`](super::Sender::send) waits for a wallet or a receipt before it answers
    /// [`Sending::Waiting`](crate::Sending::Waiting): four minutes. Less than the timeout of the stage that calls it.
    pub patience: Duration,
    /// The time between two questions for receipts: 250 ms.
    pub receipts_every: Duration,
    /// How many blocks a block has to have after it before a revert in it counts: none.
    pub confirmations: u64,
    /// Whether a revert at the estimate is about the wallet rather than the call, such as too few tokens; and the cause
    /// to show. Then the next wallet is tried.
    pub lacks_funds: fn(&[u8]) -> Option<&'static str>,
}

impl Default for SenderOptions {
    fn default() -> Self {
        Self {
            gas_factor: 1.2,
            patience: Duration::from_secs(240),
            receipts_every: Duration::from_millis(250),
            confirmations: 0,
            lacks_funds: |_| None,
        }
    }
}
