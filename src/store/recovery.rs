//! Putting lost requests back on their way, and telling whether lives were legal.

use serde::Serialize;
use sqlx::FromRow;
use uuid::Uuid;

use super::Store;
use crate::error::StoreError;

/// What history says about a set of requests, read from rows and events alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow, Serialize)]
pub struct Lives {
    /// Requests without a row.
    pub missing: i64,
    /// Requests that have not ended.
    pub unfinished: i64,
    /// Requests with more or fewer than one terminal status in their history, of those that have one.
    pub finished_twice: i64,
    /// Steps that no rule allows, or that do not follow from the step before.
    pub illegal_steps: i64,
    /// Sends whose worker was lost.
    pub recovered: i64,
}

/// What `recover` is to do.
#[derive(Debug, Clone, Copy)]
pub struct Recover<'a> {
    /// Live requests looked at per transaction.
    pub batch: i32,
    /// Only count.
    pub dry_run: bool,
    /// Only this kind.
    pub kind: Option<&'a str>,
    /// Reset what is under a live lease too.
    pub reset_all: bool,
    /// Even while live leases exist.
    pub force: bool,
}

/// One batch of `recover`.
#[derive(Debug, Clone, PartialEq, Eq, FromRow, Serialize)]
pub struct RecoverStep {
    /// Live requests looked at.
    pub examined: i64,
    /// In flight without a holder: back to processing.
    pub reset: i64,
    /// In flight without a holder, `at_most_once`: ended as `outcome_unknown`.
    pub ended: i64,
    /// Without a message: got one.
    pub rebuilt: i64,
    /// Of these, under a new number.
    pub renumbered: i64,
    /// The requests concerned.
    pub ids: Vec<Uuid>,
    /// Where to go on; none at the end.
    pub next_after: Option<Uuid>,
}

/// One batch of `remove_strays`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromRow, Serialize)]
pub struct StrayStep {
    /// Messages removed (or to be removed).
    pub removed: i64,
    /// Where to go on; none at the end.
    pub next_after: Option<i64>,
}

impl Store {
    /// Reads the history of requests and counts what is wrong with it.
    ///
    /// # Errors
    ///
    /// Database trouble.
    pub async fn lives(&self, ids: &[Uuid]) -> Result<Lives, StoreError> {
        Ok(ask!(
            self,
            sqlx::query_as(include_str!("../../sql/queries/lives.sql")).bind(ids),
            fetch_one
        ))
    }

    /// One bounded batch of recovery: `tidegate.recover`.
    ///
    /// # Errors
    ///
    /// Database trouble.
    pub async fn recover(
        &self,
        step: &Recover<'_>,
        after: Option<Uuid>,
    ) -> Result<RecoverStep, StoreError> {
        Ok(ask!(
            self,
            sqlx::query_as(include_str!("../../sql/queries/recover.sql"))
                .bind(step.batch)
                .bind(after)
                .bind(step.dry_run)
                .bind(step.kind)
                .bind(step.reset_all)
                .bind(step.force),
            fetch_one
        ))
    }

    /// One bounded batch of removing messages without a live request: `tidegate.remove_strays`.
    ///
    /// # Errors
    ///
    /// Unknown queue, database trouble.
    pub async fn remove_strays(
        &self,
        queue: &str,
        batch: i32,
        after: Option<i64>,
        dry_run: bool,
    ) -> Result<StrayStep, StoreError> {
        Ok(ask!(
            self,
            sqlx::query_as(include_str!("../../sql/queries/remove_strays.sql"))
                .bind(queue)
                .bind(batch)
                .bind(after)
                .bind(dry_run),
            fetch_one
        ))
    }
}
