//! Fair queues: how many keys take turns, whose they are, and their settings.

use serde::Serialize;
use sqlx::FromRow;
use utoipa::ToSchema;

use super::Store;
use crate::error::Result;

/// The statements of this module.
const SQL: &str = include_str!("../../sql/queries/fair.sql");

/// One row of `fair_overview`.
#[derive(Debug, Clone, PartialEq, Eq, FromRow, Serialize)]
pub struct FairOverview {
    /// The fair queue.
    pub queue: String,
    /// Whose turns it serves: `submitter` or `kind`.
    pub fair_by: String,
    /// How many keys take turns.
    pub active_keys: i64,
    /// How many keys have nothing left, and are remembered until the others have caught up.
    pub idle_turns: i64,
    /// Rows of its journal that are not folded yet; those of snoozed messages wait for their times.
    pub arrivals: i64,
}

/// A key of a fair queue: a submitter or a kind that has requests there, or settings.
#[derive(Debug, Clone, PartialEq, FromRow, Serialize, ToSchema)]
pub struct FairKey {
    /// The submitter or kind; empty: requests without a submitter.
    pub name: String,
    /// How many of its requests are served for one of a key of weight 1.
    pub weight: i32,
    /// Whether its requests are left out.
    pub paused: bool,
    /// Requests that may be taken now.
    pub waiting: i64,
    /// Requests under a lease.
    pub held: i64,
    /// Its share of the services among the keys that have something waiting.
    pub share: f64,
    /// Since when the first of them waits, in seconds.
    #[schema(required)]
    pub oldest_seconds: Option<f64>,
}

impl Store {
    /// How many keys take turns in each fair queue: `tidegate.fair_overview`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn fair_overview(&self) -> Result<Vec<FairOverview>> {
        run!(self, fetch_all query_as "fair_overview"())
    }

    /// The keys of a fair queue that have requests there, or settings; those with most waiting first, `limit` at most:
    /// `tidegate.fair_keys`.
    ///
    /// # Errors
    ///
    /// Unknown queue, a fifo queue, a database error.
    pub async fn fair_keys(&self, queue: &str, limit: i32) -> Result<Vec<FairKey>> {
        run!(self, fetch_all query_as "fair_keys"(queue, limit))
    }

    /// Gives a key a weight, or pauses or resumes it: `tidegate.fair_key_set`. Returns whether that changed anything.
    /// What is none stays.
    ///
    /// # Errors
    ///
    /// Unknown queue or kind, a fifo queue, a weight outside 1 to 1000, a database error.
    pub async fn fair_key_set(
        &self,
        queue: &str,
        name: &str,
        weight: Option<i32>,
        paused: Option<bool>,
    ) -> Result<bool> {
        run!(self, fetch_one query_scalar "fair_key_set"(queue, name, weight, paused, self.actor.as_deref()))
    }

    /// Removes the settings of a key: `tidegate.fair_key_remove`. Returns whether it had any.
    ///
    /// # Errors
    ///
    /// Unknown queue, a fifo queue, a database error.
    pub async fn fair_key_remove(&self, queue: &str, name: &str) -> Result<bool> {
        run!(self, fetch_one query_scalar "fair_key_remove"(queue, name, self.actor.as_deref()))
    }
}
