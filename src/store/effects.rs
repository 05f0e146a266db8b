//! A transaction in which an embedder writes the effects of receipts.

use std::time::Duration;

use sqlx::PgConnection;

use super::{Store, columns::milliseconds};
use crate::error::{Result, StoreError};

impl Store {
    /// Returns the id of a transaction that has begun, and limits each of its statements to `limit`.
    pub(crate) async fn begin_effects(&self, transaction: &mut PgConnection, limit: Duration) -> Result<String> {
        let begun = sqlx::query_scalar(statement!("effects_begin.sql"))
            .bind(milliseconds(limit).max(1))
            .fetch_one(transaction)
            .await;
        self.errors.record(begun.map_err(StoreError::from), &self.pool)
    }

    /// Makes sure that the transaction is still the same: after an end of it each statement would commit by itself; and
    /// that it has not failed: PostgreSQL answers the commit of a failed one without an error.
    pub(crate) async fn check_effects(&self, transaction: &mut PgConnection, begun: &str) -> Result<()> {
        let query = sqlx::query_scalar(statement!("effects_check.sql"));
        let now: Option<String> = query.fetch_one(transaction).await?;
        if now.as_deref() == Some(begun) {
            return Ok(());
        }
        Err(StoreError::Misuse(
            "the effect has ended the transaction of its receipt".to_owned(),
        ))
    }
}
