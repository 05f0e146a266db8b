//! The service level indicators of each stage, the state of its policy, and learned timeouts.

use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::FromRow;

use super::Store;
use crate::error::Result;

/// The statements of this module.
const SQL: &str = include_str!("../../sql/queries/policies.sql");

/// One stage of a kind: its figures of the last five minutes, and the policy in force. Rates are per request, ratios
/// per call; none without calls.
#[derive(Debug, Clone, PartialEq, FromRow, Serialize)]
pub struct StageLevel {
    /// The kind.
    pub kind: String,
    /// The stage.
    pub stage: String,
    /// Calls per minute, over five minutes.
    pub calls_per_minute: f64,
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
    /// The kind's target for it, milliseconds.
    pub slo_p99_ms: Option<i32>,
    /// The share of the time in which its breaker was not closed.
    pub open_ratio: f64,
    /// The factor of backoffs; 1: as declared.
    pub stretch: f64,
    /// Whether its queue is congested.
    pub congested: bool,
    /// Timeout of one call, milliseconds.
    pub timeout_ms: i32,
    /// How long its attempts take at most, with their backoffs, milliseconds: `W_retry`.
    pub w_retry_ms: f64,
    /// The probability that one of its attempts succeeds, by the calls of the last five minutes.
    pub p_ok: Option<f64>,
    /// How many attempts a request takes on average.
    pub expected_attempts: Option<f64>,
    /// `closed`, `open`, `half_open`, or `none`: its policy has no breaker.
    pub breaker: String,
    /// All calls.
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

/// The adaptive timeout of one stage of a kind, as all processes share it; a figure without samples is none.
#[derive(Debug, Clone, PartialEq, FromRow, Serialize)]
pub struct EstimatorOverview {
    /// The kind.
    pub kind: String,
    /// The stage.
    pub stage: String,
    /// `normal` or `high_load`.
    pub state: String,
    /// Smoothed latency, milliseconds.
    pub srtt_ms: Option<f64>,
    /// Its smoothed deviation, milliseconds.
    pub rttvar_ms: Option<f64>,
    /// The smoothed timeout, milliseconds.
    pub srto_ms: Option<f64>,
    /// How many times four deviations the timeout is above the smoothed latency.
    pub k_margin: i32,
    /// The timeout as last folded, milliseconds.
    pub timeout_ms: f64,
    /// The shortest answer of the last two windows, milliseconds.
    pub min_rtt_ms: Option<f64>,
    /// The shortest mean of an interval of the last two windows that kept the target, milliseconds.
    pub usual_rtt_ms: Option<f64>,
    /// Share of calls that timed out in the last closed interval; none: it had too few.
    pub failure_rate: Option<f64>,
    /// The target for that share; none: no target.
    pub slo: Option<f64>,
    /// Calls begun per second in the last closed interval.
    pub load_rps: Option<f64>,
    /// The most calls begun per second in an interval since high load began; none until one is closed, and unless in
    /// high load.
    pub high_load_rps: Option<f64>,
    /// For how many intervals high load has lasted.
    pub high_load_intervals: i32,
    /// The shortest timeout, milliseconds.
    pub min_ms: i32,
    /// The longest timeout, milliseconds.
    pub max_ms: i32,
    /// How long an interval is, milliseconds.
    pub interval_ms: i32,
    /// How many are closed.
    pub intervals: i64,
    /// How many processes have reported within two intervals.
    pub processes: i64,
    /// Calls that they had under way.
    pub in_flight: i64,
    /// When something was last folded in; none: never.
    pub updated_at: Option<DateTime<Utc>>,
}

impl Store {
    /// Every stage of every kind: `tidegate.sli`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn stage_levels(&self) -> Result<Vec<StageLevel>> {
        run!(self, fetch_all query_as "sli"())
    }

    /// Every adaptive timeout: `tidegate.estimator_overview`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn estimator_overview(&self) -> Result<Vec<EstimatorOverview>> {
        run!(self, fetch_all query_as "estimators"())
    }
}
