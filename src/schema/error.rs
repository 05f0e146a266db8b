//! Why a database could not be brought to this version.

use std::{fmt, sync::Arc};

use sqlx::postgres::PgDatabaseError;

use crate::error::StoreError;

/// Why a database could not be brought to this version.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrateError {
    /// The database cannot be reached, or does not let this user in.
    #[error(transparent)]
    Connection(#[from] StoreError),
    /// pgmq's own SQL did not go in.
    #[error("pgmq's tables could not be installed")]
    Pgmq(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A migration failed; nothing of it was kept.
    #[error("migration {name} of schema {schema} failed, and nothing of it was kept")]
    Migration {
        /// Its schema.
        schema: &'static str,
        /// The name of its file, without its ending.
        name: String,
        /// The error of the database.
        source: StatementError,
    },
    /// The database has a migration that this program does not have, or has with another text.
    #[error(
        "nothing was changed: migration {version} of schema {schema} in this database is of another version of the program; \
         migrate with that one or a newer one"
    )]
    History {
        /// Its schema.
        schema: &'static str,
        /// The number in its name.
        version: i32,
        /// What refinery says of it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A later build of the program has migrated the schema.
    #[error(
        "nothing was changed: schema {schema} is of build {build} ({applied}), and this program has build {own}; \
         migrate with that program or a later one, or with --downgrade"
    )]
    Downgrade {
        /// Its schema.
        schema: &'static str,
        /// The build of the schema.
        build: i32,
        /// The version that applied it, and when.
        applied: String,
        /// The build of this program.
        own: i32,
    },
    /// A file of functions failed; the files before it were not kept either.
    #[error("{file} of schema {schema} could not be applied, and no function was changed")]
    Sql {
        /// Its schema.
        schema: &'static str,
        /// The file, for Tidegate's own below `sql/`.
        file: &'static str,
        /// The error of the database.
        source: StatementError,
    },
    /// The database is of a sort that Tidegate does not run on; nothing was changed.
    #[error("nothing was changed: {0}")]
    Unfit(String),
    /// Other transactions kept locks for too long; the statements that waited for them were rolled back.
    #[error("other transactions keep locks that this needs; end them, or try again: {0}")]
    Locked(String),
    /// The database refused another statement.
    #[error("the database refused")]
    Database(#[source] StatementError),
}

impl From<sqlx::Error> for MigrateError {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error.into())
    }
}

/// An error of a statement, with the server's detail and hint.
#[derive(Debug, Clone)]
pub struct StatementError(Arc<sqlx::Error>);

impl StatementError {
    /// Whether a lock of another session was its cause.
    pub(super) fn is_for_a_lock(&self) -> bool {
        let code = self.0.as_database_error().and_then(|error| error.code());
        matches!(code.as_deref(), Some("55P03" | "40P01"))
    }

    /// Whether its cause was that the database has an object of this name with another signature: another result, other
    /// columns, or several of the name.
    pub(super) fn is_for_a_signature(&self) -> bool {
        let code = self.0.as_database_error().and_then(|error| error.code());
        matches!(code.as_deref(), Some("42P13" | "42P16" | "42725" | "P0003"))
    }
}

impl fmt::Display for StatementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = self.0.as_database_error();
        let Some(error) = error.and_then(|error| error.try_downcast_ref::<PgDatabaseError>()) else {
            return self.0.fmt(f);
        };
        f.write_str(error.message())?;
        let more = [error.detail(), error.hint()];
        more.into_iter().flatten().try_for_each(|more| write!(f, "; {more}"))
    }
}

impl std::error::Error for StatementError {}

impl From<sqlx::Error> for StatementError {
    fn from(error: sqlx::Error) -> Self {
        Self(Arc::new(error))
    }
}
