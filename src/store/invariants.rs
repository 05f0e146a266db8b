//! Invariants, and their violations.

use std::time::Duration;

use sqlx::{Connection as _, FromRow};
use uuid::Uuid;

use super::{Store, columns::milliseconds};
use crate::error::Result;

/// A condition that holds at any moment.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct Invariant {
    /// Its name: that of its violation.
    pub name: String,
    /// Its sentence.
    pub says: String,
    /// The query that shows its violations.
    pub query: String,
    /// Whether it can be asked of a [`Slice`]; these read all requests or their history.
    pub by_request: bool,
}

/// How often an invariant does not hold.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct Violation {
    /// The invariant's name.
    pub name: String,
    /// How often it is broken.
    pub violations: i64,
    /// The first ten of those.
    pub samples: Vec<String>,
}

/// Requests next to each other by id, and so by age.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Slice {
    /// The first of them; none: no bound.
    pub from: Option<Uuid>,
    /// The first that is none of them any more; none: no bound.
    pub before: Option<Uuid>,
}

impl Store {
    /// All invariants: the view `tidegate.invariant`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn invariants(&self) -> Result<Vec<Invariant>> {
        run!(self, fetch_all query_as "invariants.sql"())
    }

    /// Those of the named invariants that do not hold, in one snapshot: `tidegate.check_invariants`. Those by request
    /// are asked of a slice only. None when the database was not through in time.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn check_invariants(
        &self,
        names: &[&str],
        slice: Slice,
        within: Duration,
    ) -> Result<Option<Vec<Violation>>> {
        let mut connection = self.connection().await?;
        let mut transaction = connection.get().begin().await?;
        sqlx::query(statement!("statement_timeout.sql"))
            .bind(format!("{}ms", within.as_millis().max(1)))
            .execute(&mut *transaction)
            .await?;
        let checked = sqlx::query_as(statement!("check_invariants.sql"))
            .bind(names)
            .bind(slice.from)
            .bind(slice.before)
            .fetch_all(&mut *transaction)
            .await;
        match checked {
            Ok(found) => Ok(Some(found)),
            Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some("57014") => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The slice of the requests of a `span` that ends before one (none: the newest), and how many it has:
    /// `tidegate.invariant_slice`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn invariant_slice(&self, before: Option<Uuid>, span: Duration) -> Result<(Slice, i64)> {
        let (from, requests) = run!(self, fetch_one query_as "invariant_slice.sql"(before, milliseconds(span)))?;
        Ok((Slice { from, before }, requests))
    }
}
