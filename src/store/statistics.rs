//! The counts of API nodes, and the quality of ETAs.

use std::{collections::HashMap, time::Duration};

use sqlx::FromRow;

use super::Store;
use crate::error::Result;

/// Polls of requests whose end was answered to a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PollCount {
    /// Such requests.
    pub answered: u64,
    /// Polls of them, the last one included.
    pub polls: u64,
    /// The sum of the times between their ends and the last poll.
    pub lateness: Duration,
}

/// Accepted submissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SubmissionCount {
    /// All of them.
    pub submitted: u32,
    /// Those that were answered with an earlier request.
    pub replayed: u32,
}

/// The quality of a kind's ETAs, of every request that has ended.
#[derive(Debug, Clone, PartialEq, FromRow)]
pub struct EtaQuality {
    /// The kind.
    pub kind: String,
    /// The sum of the times between the ETA and the end; negative: earlier.
    pub error_seconds_sum: f64,
    /// How many ended up to −30, −5, −1, 0, 1, 5, 30 seconds after their ETA, each above the one before, and the rest.
    pub error_bins: Vec<i64>,
    /// How many answers had a time for 90 percent.
    pub p90_stated: i64,
    /// How many of these had their answer within it.
    pub p90_held: i64,
}

/// One column of counts, in the order of their kinds.
fn column<C>(counts: &HashMap<String, C>, of: fn(&C) -> u128) -> Vec<i64> {
    let clamp = |count| i64::try_from(count).unwrap_or(i64::MAX);
    counts.values().map(|count| clamp(of(count))).collect()
}

impl Store {
    /// The quality of each kind's ETAs: `tidegate.eta_quality`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn eta_quality(&self) -> Result<Vec<EtaQuality>> {
        run!(self, fetch_all query_as "eta_quality.sql"())
    }

    /// Adds polls, by kind: `tidegate.count_polls`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn count_polls(&self, counts: &HashMap<String, PollCount>) -> Result<()> {
        let kinds: Vec<_> = counts.keys().map(String::as_str).collect();
        run!(self, execute query "count_polls.sql"(
            kinds, column(counts, |count| count.answered.into()), column(counts, |count| count.polls.into()),
            column(counts, |count| count.lateness.as_millis())
        ))
        .map(|_| ())
    }

    /// Adds submissions, by kind: `tidegate.count_submissions`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn count_submissions(&self, counts: &HashMap<String, SubmissionCount>) -> Result<()> {
        let kinds: Vec<_> = counts.keys().map(String::as_str).collect();
        run!(self, execute query "count_submissions.sql"(
            kinds, column(counts, |count| count.submitted.into()), column(counts, |count| count.replayed.into())
        ))
        .map(|_| ())
    }
}
