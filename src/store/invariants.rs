//! What must hold, and does not.

use serde::Serialize;
use sqlx::FromRow;

use super::Store;
use crate::error::StoreError;

/// An invariant that does not hold.
#[derive(Debug, Clone, PartialEq, Eq, FromRow, Serialize)]
pub struct Violation {
    /// Its name: what is there and should not be.
    pub name: String,
    /// What it says.
    pub says: String,
    /// How often it is broken.
    pub violations: i64,
    /// The first ten of those.
    pub samples: Vec<String>,
    /// The query that shows them all.
    pub query: String,
}

impl Store {
    /// Every invariant that does not hold, in one snapshot: the view `tidegate.invariant_violation`.
    ///
    /// # Errors
    ///
    /// Database trouble.
    pub async fn invariant_violations(&self) -> Result<Vec<Violation>, StoreError> {
        Ok(ask!(
            self,
            sqlx::query_as(include_str!("../../sql/queries/invariant_violations.sql")),
            fetch_all
        ))
    }

    /// How many invariants there are.
    ///
    /// # Errors
    ///
    /// Database trouble.
    pub async fn invariant_count(&self) -> Result<i64, StoreError> {
        Ok(ask!(
            self,
            sqlx::query_scalar(include_str!("../../sql/queries/invariant_count.sql")),
            fetch_one
        ))
    }
}
