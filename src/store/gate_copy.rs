//! The rows of the gates that nodes copy.

use sqlx::FromRow;

use super::Store;
use crate::error::Result;

/// One row of `tidegate.gate_copy`: a gate, the submissions that it admits, and the figures of its Retry-After. Depths
/// are in messages, times in seconds.
#[derive(Debug, Clone, PartialEq, Default, FromRow)]
pub struct GateRow {
    /// Its name: its queue's, `kind direct`, or `submitter ann`.
    pub name: String,
    /// Its queue; none for a quota of a kind or a submitter.
    pub queue: Option<String>,
    /// The submitter of its quota. Its name is shown to that submitter only.
    pub submitter: Option<String>,
    /// The kinds whose new requests pass it; of a submitter's gate all.
    pub kinds: Vec<String>,
    /// The kinds whose requests pass it later.
    pub passed_by: Vec<String>,
    /// Whether it admits submissions.
    pub accepting: bool,
    /// The depth at which it closes.
    pub high_water: i64,
    /// The depth at which it opens.
    pub low_water: i64,
    /// The depth, a moment ago.
    pub depth: i64,
    /// Counts its changes.
    pub epoch: i64,
    /// Messages served per second; none means no limit, 0 stopped.
    pub drain_rate: Option<f64>,
    /// The least Retry-After while an operator holds it.
    pub forced_wait: Option<f64>,
    /// The least Retry-After while its queue does not drain.
    pub still_wait: Option<f64>,
    /// The safety margin of predictions: 0.2 is a fifth more.
    pub safety_margin: f64,
    /// The shortest Retry-After.
    pub min_seconds: f64,
    /// The longest Retry-After.
    pub max_seconds: f64,
    /// The largest jitter of a Retry-After: 0.1 is a tenth.
    pub jitter: f64,
    /// How many API nodes listen: they share the room.
    pub nodes: f64,
    /// All kinds that make idempotency keys of their payloads; the same in each row.
    pub keyed: Vec<String>,
}

impl Store {
    /// Every gate: `tidegate.gate_copy`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn gate_copy(&self) -> Result<Vec<GateRow>> {
        run!(self, fetch_all query_as "gate_copy.sql"())
    }
}
