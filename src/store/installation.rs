//! Whether the schema is there, which database this is, and whether it is quarantined.

use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::FromRow;

use super::Store;
use crate::{
    error::{Result, StoreError},
    schema,
};

/// The statements of this module.
const SQL: &str = include_str!("../../sql/queries/installation.sql");

/// Since when, and why, nothing is sent from a database.
#[derive(Debug, Clone, PartialEq, Eq, FromRow, Serialize)]
pub struct Quarantine {
    /// Since when; none if it was restored while no program could note it.
    pub quarantined_at: Option<DateTime<Utc>>,
    /// Why.
    pub because: String,
}

impl Store {
    /// Makes sure that the database answers and has a schema this program can work with.
    ///
    /// A schema of another build is allowed, because old and new programs run side by side during an upgrade.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotMigrated`] or [`StoreError::Unavailable`].
    pub async fn check_ready(&self) -> Result<()> {
        self.check_schema().await.map(|_| ())
    }

    /// As [`Store::check_ready`], and that the database takes writes.
    ///
    /// # Errors
    ///
    /// As there; [`StoreError::Unavailable`], too, when it is a standby or read-only.
    pub async fn check_writable(&self) -> Result<()> {
        if self.check_schema().await? {
            return Err(StoreError::Unavailable("the database is read-only: a standby, or set so".to_owned()));
        }
        Ok(())
    }

    /// Makes sure that a schema is applied; returns whether the database is read-only.
    async fn check_schema(&self) -> Result<bool> {
        let applied: Option<(String, bool, Option<String>)> = run!(self, fetch_optional query_as "ready"())?;
        let (applied, is_read_only, missing) =
            applied.ok_or_else(|| StoreError::NotMigrated("its schema was never applied whole".to_owned()))?;
        if let Some(missing) = missing {
            return Err(StoreError::NotMigrated(format!("missing: {missing}")));
        }
        let own = schema::fingerprint();
        if applied != own {
            tracing::debug!(applied, own, "the schema is of another build");
        }
        Ok(is_read_only)
    }

    /// Quarantines the database if it is a copy of the one that was recorded, and records one that is not known yet:
    /// `tidegate.notice_copy`. Returns its quarantine, if any.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn notice_copy(&self) -> Result<Option<Quarantine>> {
        run!(self, fetch_optional query_as "notice_copy"())
    }

    /// Its quarantine, if any: `quarantine_state`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn quarantine_state(&self) -> Result<Option<Quarantine>> {
        run!(self, fetch_optional query_as "quarantine_state"())
    }

    /// Stops claims, searches for receipts and webhooks until [`adopt`](Self::adopt); returns whether that is new.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn quarantine(&self, reason: Option<&str>) -> Result<bool> {
        run!(self, fetch_one query_scalar "quarantine"(reason, self.actor.as_deref()))
    }

    /// Ends a quarantine, and records which database this is; returns why it was quarantined, if it was.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn adopt(&self) -> Result<Option<String>> {
        run!(self, fetch_one query_scalar "adopt"(self.actor.as_deref()))
    }
}
