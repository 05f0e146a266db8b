//! A transaction that others write in.

use std::time::Duration;

use sqlx::PgConnection;

use super::{Store, leases::milliseconds};
use crate::error::StoreError;

/// The name of a transaction.
pub(crate) struct Effects(String);

impl Store {
    /// Names a transaction that has begun, and lets none of its statements run for longer than `limit`.
    pub(crate) async fn begin_effects(
        &self,
        transaction: &mut PgConnection,
        limit: Duration,
    ) -> Result<Effects, StoreError> {
        let sql = include_str!("../../sql/queries/effects_begin.sql");
        let begun = sqlx::query_scalar(sql)
            .bind(milliseconds(limit).max(1))
            .fetch_one(transaction)
            .await;
        begun
            .map(Effects)
            .map_err(StoreError::from)
            .inspect_err(|error| self.troubles.note(error, &self.pool))
    }

    /// Makes sure that the transaction is still the same, or what follows would commit by itself; and that it has not
    /// failed: PostgreSQL answers the commit of a failed one as if nothing were wrong.
    pub(crate) async fn check_effects(
        &self,
        transaction: &mut PgConnection,
        begun: &Effects,
    ) -> Result<(), StoreError> {
        let sql = include_str!("../../sql/queries/effects_check.sql");
        let now: Option<String> = sqlx::query_scalar(sql).fetch_one(transaction).await?;
        if now.as_ref() == Some(&begun.0) {
            return Ok(());
        }
        Err(StoreError::Misuse(
            "the effect has ended the transaction it was to write in".to_owned(),
        ))
    }
}
