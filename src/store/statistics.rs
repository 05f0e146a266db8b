//! What API nodes have seen of their callers.

use std::{collections::HashMap, time::Duration};

use super::Store;
use crate::error::StoreError;

/// Polls of requests whose end a poll has told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PollCount {
    /// Such requests.
    pub answered: u64,
    /// Polls of them, the one that told the end included.
    pub polls: u64,
    /// How long their ends had waited to be asked for, all together.
    pub lateness: Duration,
}

impl Store {
    /// Adds polls, by kind: `tidegate.count_polls`.
    ///
    /// # Errors
    ///
    /// Database trouble.
    pub async fn count_polls(&self, counts: &HashMap<String, PollCount>) -> Result<(), StoreError> {
        let column = |of: fn(&PollCount) -> u128| -> Vec<i64> {
            let clamp = |count| i64::try_from(count).unwrap_or(i64::MAX);
            counts.values().map(|count| clamp(of(count))).collect()
        };
        let kinds: Vec<_> = counts.keys().map(String::as_str).collect();
        ask!(
            self,
            sqlx::query(include_str!("../../sql/queries/count_polls.sql"))
                .bind(kinds)
                .bind(column(|count| count.answered.into()))
                .bind(column(|count| count.polls.into()))
                .bind(column(|count| count.lateness.as_millis())),
            execute
        );
        Ok(())
    }
}
