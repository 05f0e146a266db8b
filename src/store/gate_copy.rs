//! The gates, as nodes copy them.

use sqlx::FromRow;

use super::Store;
use crate::error::StoreError;

/// One row of `tidegate.gate_copy`: a gate, whom it lets in, and what it takes to say when to come back.
#[derive(Debug, Clone, PartialEq, FromRow)]
pub struct GateRow {
    /// What its events and notifications call it.
    pub name: String,
    /// The queue that it watches; otherwise it caps a kind or a submitter.
    pub queue: Option<String>,
    /// The kind that it caps.
    pub kind: Option<String>,
    /// The submitter that it caps.
    pub submitter: Option<String>,
    /// The kinds whose new requests come to it; of a submitter's gate all.
    pub kinds: Vec<String>,
    /// The kinds whose requests come to it later.
    pub passed_by: Vec<String>,
    /// `accepting` or `too_many_requests`.
    pub state: String,
    /// Whether an operator holds it.
    pub forced: bool,
    /// The depth at which it closes.
    pub high_water: i32,
    /// The depth at which it opens.
    pub low_water: i32,
    /// The depth, in messages.
    pub depth: i64,
    /// Counts its changes.
    pub epoch: i64,
    /// Messages served per second; none means no limit, 0 stopped.
    pub drain_rate: Option<f64>,
    /// The least that a refused caller is told, in seconds: while an operator holds it.
    pub forced_wait: Option<i32>,
    /// The same, while nothing moves behind it.
    pub still_wait: Option<i32>,
    /// The safety margin of predictions: 0.2 is a fifth more.
    pub safety_margin: f64,
    /// The shortest wait that is told, in seconds.
    pub min_seconds: i32,
    /// The longest, in seconds.
    pub max_seconds: i32,
    /// How much later a caller may be told to come back: 0.1 is a tenth.
    pub jitter: f64,
    /// How many API nodes listen.
    pub nodes: i64,
    /// All kinds that make idempotency keys of their payloads; the same in each row.
    pub keyed: Vec<String>,
}

impl Store {
    /// Every gate: `tidegate.gate_copy`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn gate_copy(&self) -> Result<Vec<GateRow>, StoreError> {
        run!(self, fetch_all query_as "gate_copy.sql"())
    }
}
