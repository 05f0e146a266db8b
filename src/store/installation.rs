//! Which database this is, and whether it is quarantined.

use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::FromRow;

use super::Store;
use crate::error::Result;

/// Since when, and why, nothing is sent from a database.
#[derive(Debug, Clone, PartialEq, Eq, FromRow, Serialize)]
pub struct Quarantine {
    /// Since when; none if it was restored while no program could note it.
    pub quarantined_at: Option<DateTime<Utc>>,
    /// Why.
    pub because: String,
}

impl Store {
    /// Quarantines the database if it is a copy of the one that was recorded, and records one that is not known yet:
    /// `tidegate.notice_copy`. Returns its quarantine, if any.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn notice_copy(&self) -> Result<Option<Quarantine>> {
        run!(self, fetch_optional query_as "notice_copy.sql"())
    }

    /// Its quarantine, if any: `quarantine_state`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn quarantine_state(&self) -> Result<Option<Quarantine>> {
        run!(self, fetch_optional query_as "quarantine_state.sql"())
    }

    /// Stops claims, searches for receipts and webhooks until [`adopt`](Self::adopt); returns whether that is new.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn quarantine(&self, reason: Option<&str>) -> Result<bool> {
        run!(self, fetch_one query_scalar "quarantine.sql"(reason, self.actor.as_deref()))
    }

    /// Ends a quarantine, and records which database this is; returns why it was quarantined, if it was.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn adopt(&self) -> Result<Option<String>> {
        run!(self, fetch_one query_scalar "adopt.sql"(self.actor.as_deref()))
    }
}
