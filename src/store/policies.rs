//! How calls go: the service level indicators of each stage, and what its policy makes of them.

use serde::Serialize;
use sqlx::FromRow;

use super::Store;
use crate::error::StoreError;

/// One stage of a kind: what the last five minutes showed, and what holds now. Rates are per request, ratios per call; none
/// where nothing was called.
#[derive(Debug, Clone, PartialEq, FromRow, Serialize)]
pub struct StageLevel {
    /// The kind.
    pub kind: String,
    /// The stage.
    pub stage: String,
    /// Retries per request.
    pub retry_rate: Option<f64>,
    /// Timeouts per request.
    pub timeout_rate: Option<f64>,
    /// Share of calls that failed.
    pub error_ratio: Option<f64>,
    /// Share of submissions that were duplicates; at the tx stage.
    pub dup_drop_rate: Option<f64>,
    /// Median latency of calls, milliseconds.
    pub p50_ms: Option<i32>,
    /// 99th percentile of it.
    pub p99_ms: Option<i32>,
    /// For what share of the time its breaker was not closed.
    pub open_ratio: f64,
    /// By what backoffs are multiplied; 1: as declared.
    pub stretch: f64,
    /// Whether its queue is congested.
    pub congested: bool,
    /// Timeout of one call, milliseconds.
    pub timeout_ms: i32,
    /// How long its attempts take at most, with their backoffs, milliseconds: `W_retry`.
    pub w_retry_ms: f64,
    /// With what probability one of its attempts succeeds, by the calls of the last five minutes.
    pub p_ok: Option<f64>,
    /// How many attempts a request takes on average.
    pub expected_attempts: Option<f64>,
    /// `closed`, `open`, `half_open`, or `none`: its policy asks for no breaker.
    pub breaker: String,
    /// Calls, since ever.
    pub calls: i64,
    /// Those that failed.
    pub failures: i64,
    /// Those that took too long.
    pub timeouts: i64,
    /// Calls that were to be made again.
    pub retries: i64,
    /// Hedged calls.
    pub hedges: i64,
}

impl Store {
    /// Every stage of every kind: `tidegate.sli`.
    ///
    /// # Errors
    ///
    /// Database trouble.
    pub async fn stage_levels(&self) -> Result<Vec<StageLevel>, StoreError> {
        Ok(ask!(
            self,
            sqlx::query_as(include_str!("../../sql/queries/sli.sql")),
            fetch_all
        ))
    }
}
