//! The gates that submissions come to.

use sqlx::FromRow;

use super::Store;
use crate::error::StoreError;

/// One row of `tidegate.gate_copy`: the gate of a queue that is some kind's first.
#[derive(Debug, Clone, PartialEq, FromRow)]
pub struct GateRow {
    /// The queue.
    pub queue: String,
    /// The kinds whose new requests go there.
    pub kinds: Vec<String>,
    /// `accepting` or `too_many_requests`.
    pub state: String,
    /// The depth at which the gate closes.
    pub high_water: i32,
    /// The depth.
    pub depth: i64,
    /// Messages served per second; none means no limit, 0 stopped.
    pub drain_rate: Option<f64>,
}

impl Store {
    /// Every gate that submissions come to: `tidegate.gate_copy`.
    ///
    /// # Errors
    ///
    /// Database trouble.
    pub async fn gate_copy(&self) -> Result<Vec<GateRow>, StoreError> {
        Ok(ask!(
            self,
            sqlx::query_as(include_str!("../../sql/queries/gate_copy.sql")),
            fetch_all
        ))
    }
}
