//! The counts of polls and replays, and the quality of ETAs.

use std::{collections::HashMap, time::Duration};

use sqlx::FromRow;

use super::{Store, columns::milliseconds};
use crate::error::Result;

/// The statements of this module.
const SQL: &str = include_str!("../../sql/queries/statistics.sql");

/// Polls of requests whose end was answered to a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PollCount {
    /// Such requests.
    pub answered: i64,
    /// Polls of them, the last one included.
    pub polls: i64,
    /// The sum of the times between their ends and the last poll.
    pub lateness: Duration,
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

impl Store {
    /// The quality of each kind's ETAs: `tidegate.eta_quality`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn eta_quality(&self) -> Result<Vec<EtaQuality>> {
        run!(self, fetch_all query_as "eta_quality"())
    }

    /// Adds polls, by kind: `tidegate.count_polls`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn count_polls(&self, counts: &HashMap<String, PollCount>) -> Result<()> {
        let column = |of: fn(&PollCount) -> i64| counts.values().map(of).collect::<Vec<_>>();
        let kinds: Vec<_> = counts.keys().map(String::as_str).collect();
        let (answered, polls) = (column(|count| count.answered), column(|count| count.polls));
        let lateness = column(|count| milliseconds(count.lateness));
        run!(self, execute query "count_polls"(kinds, answered, polls, lateness)).map(|_| ())
    }

    /// How many submissions of each kind were replays: `tidegate.replay_counts`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn replay_counts(&self) -> Result<Vec<(String, i64)>> {
        run!(self, fetch_all query_as "replay_counts"())
    }
}
