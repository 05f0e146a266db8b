//! Brings a database to this version: pgmq's SQL, the migrations, and then everything below `sql/`, whole.
//!
//! Migrations hold the tables and run once each. `sql/` holds the objects without data (functions, triggers, views,
//! rules, grants): each of its files has one home and is applied again whenever any of them has changed.

mod comments;
mod order;
mod session;

use std::time::{Duration, Instant};

use include_dir::{Dir, include_dir};
use serde::Serialize;
use sha2::{Digest, Sha256};

pub use self::session::StatementError;
use self::session::{APPLICATION_NAME, Session};
use crate::{
    database::{self, PoolSettings},
    error::StoreError,
};

static SQL: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/sql");

static MIGRATIONS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/migrations");

/// The key of the lock that delays a second `migrate` on the same database ("tide" in ASCII).
const LOCK_KEY: i64 = 0x7469_6465;

/// A file below `migrations/`.
#[derive(Debug)]
struct Migration {
    version: i32,
    /// The name of its file, without its ending.
    name: &'static str,
    sql: &'static str,
}

impl Migration {
    fn checksum(&self) -> String {
        format!("{:x}", Sha256::digest(self.sql))
    }
}

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
    #[error("migration {name} failed, and nothing of it was kept")]
    Migration {
        /// The name of its file, without its ending.
        name: &'static str,
        /// The error of the database.
        source: StatementError,
    },
    /// The database has a migration that this program does not have, or has with another text.
    #[error(
        "nothing was changed: migration {0} of this database is of another version of Tidegate; migrate with that one or a newer one"
    )]
    History(i32),
    /// A file below `sql/` failed; the files before it were not kept either.
    #[error("sql/{file} could not be applied, and nothing of sql/ was kept")]
    Sql {
        /// The file, below `sql/`.
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

/// The result or the plan of `migrate`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Migrated {
    /// Migrations applied, in order.
    pub migrations: Vec<String>,
    /// Whether the files below `sql/` were applied again.
    pub sql_applied: bool,
}

/// The files below `sql/` that make up the schema, each after those that it needs.
#[must_use]
pub fn sql_files() -> Vec<(&'static str, &'static str)> {
    order::in_order(below(&SQL))
}

fn below(directory: &'static Dir<'static>) -> Vec<order::File> {
    let files = directory.files().filter_map(|file| {
        let path = file.path().to_str()?;
        Some((path, file.contents_utf8()?))
    });
    let folders = directory.dirs().filter(|folder| !folder.path().ends_with("queries"));
    files.chain(folders.flat_map(below)).collect()
}

/// A fingerprint of every migration and every file below `sql/`: databases with the same one have the same schema.
#[must_use]
pub fn fingerprint() -> String {
    let mut hash = Sha256::new();
    for migration in migrations() {
        hash.update(migration.name);
        hash.update(migration.checksum());
    }
    let mut files = below(&SQL);
    files.sort_unstable();
    for (path, sql) in files {
        hash.update(path);
        hash.update(sql);
    }
    hash.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Brings the database at `url` to this version. Harmless when it has this version already, or another process migrates
/// it.
///
/// # Errors
///
/// [`MigrateError`], with the file and the error of the database.
pub async fn migrate(url: &str) -> Result<Migrated, MigrateError> {
    let mut session = Session::open(url).await?;
    session.lock().await?;
    session.check_fitness().await?;
    if !session.has_pgmq_extension().await? {
        install_pgmq(url).await?;
    }
    session
        .batch(
            "create schema if not exists tidegate;
             create table if not exists tidegate.schema_history (
               version integer primary key, name text not null, applied_on timestamptz not null, checksum text not null
             )",
        )
        .await?;
    let pending = session.pending().await?;
    let began = Instant::now();
    for migration in &pending {
        while let Err(source) = session.apply(migration).await {
            let name = migration.name;
            session
                .wait_for_lock(began, MigrateError::Migration { name, source })
                .await?;
        }
    }
    let sql_applied = session.needs_sql().await?;
    while sql_applied && let Err(error) = session.apply_sql().await {
        session.wait_for_lock(began, error).await?;
    }
    Ok(Migrated {
        migrations: names(&pending),
        sql_applied,
    })
}

/// The plan of [`migrate`], without a change.
///
/// # Errors
///
/// As [`migrate`].
pub async fn plan(url: &str) -> Result<Migrated, MigrateError> {
    let mut session = Session::open(url).await?;
    Ok(Migrated {
        migrations: names(&session.pending().await?),
        sql_applied: session.needs_sql().await?,
    })
}

fn names(migrations: &[Migration]) -> Vec<String> {
    migrations.iter().map(|migration| migration.name.to_owned()).collect()
}

/// The files below `migrations/` in the order of their versions: `V1__vocabulary.sql` has version 1.
fn migrations() -> Vec<Migration> {
    let files = MIGRATIONS.files().filter_map(|file| {
        let name = file.path().file_stem()?.to_str()?;
        Some(Migration {
            version: name.strip_prefix('V')?.split_once("__")?.0.parse().ok()?,
            name,
            sql: file.contents_utf8()?,
        })
    });
    let mut migrations: Vec<_> = files.collect();
    migrations.sort_unstable_by_key(|migration| migration.version);
    migrations
}

/// pgmq brings its SQL over its own driver, in a transaction and under a lock of its own.
async fn install_pgmq(url: &str) -> Result<(), MigrateError> {
    let settings = PoolSettings {
        connections_max: 1,
        statement_timeout: Duration::from_secs(300),
        application_name: APPLICATION_NAME.to_owned(),
        ..PoolSettings::default()
    };
    let pool = database::connect(url, &settings).await?;
    let installed = pgmq::install::install_sql_from_embedded(&pool).await;
    pool.close().await;
    installed.map_err(|error| MigrateError::Pgmq(error.into()))
}
