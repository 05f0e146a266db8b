//! One async method for each SQL function that Rust calls; the only user of `sql/queries`.
//!
//! The database decides, these methods report. What moved is always a return value: whoever settles looks at it.

mod claims;
mod operations;
mod requests;
mod settles;

use sqlx::PgPool;

pub use self::{
    claims::{Claimed, Lease},
    operations::{
        Change, Lives, QueueOverview, RecoverStep, RequestCount, Setting, StrayStep, WorkerOverview,
    },
    requests::{Admission, Cancelled, Outlook, Responded, Response, Submission, Submitted, Ticket},
    settles::{Moved, Passed},
};
use crate::{error::StoreError, schema};

/// The database, as the engine sees it.
#[derive(Debug, Clone)]
pub struct Store {
    pool: PgPool,
}

impl Store {
    /// A store over connections to a migrated database.
    #[must_use]
    pub fn new(pool: PgPool) -> Self {
        Self { pool }
    }

    /// The connections, for callers with a transaction of their own.
    #[must_use]
    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Makes sure that the database answers and has a schema this program can work with.
    ///
    /// A schema of another build is allowed, because old and new programs run side by side during an upgrade.
    ///
    /// # Errors
    ///
    /// [`StoreError::NotMigrated`] or [`StoreError::Unavailable`].
    pub async fn check_ready(&self) -> Result<(), StoreError> {
        let applied: Option<String> = sqlx::query_scalar(include_str!("../sql/queries/ready.sql"))
            .fetch_optional(&self.pool)
            .await?;
        match applied {
            None => Err(StoreError::NotMigrated(
                "its schema was never applied whole".to_owned(),
            )),
            Some(applied) => {
                let own = schema::fingerprint();
                if applied != own {
                    tracing::debug!(applied, own, "the schema is of another build");
                }
                Ok(())
            }
        }
    }
}
