//! Brings a database to this version: pgmq's SQL, the migrations, and then everything below `sql/`, whole.
//!
//! Migrations hold what has state and run once each. `sql/` holds what has none (functions, triggers, views, rules,
//! grants): each of its files has one home and is applied again whenever any of them has changed.

use std::{str::FromStr, time::Duration};

use include_dir::{Dir, include_dir};
use sha2::{Digest, Sha256};
use sqlx::PgPool;
use tokio_postgres::NoTls;

use crate::database::{self, PoolSettings};

static SQL: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/sql");

mod embedded {
    refinery::embed_migrations!("migrations");
}

/// Holds off a second `migrate` on the same database ("tide" in ASCII).
const LOCK_KEY: i64 = 0x7469_6465;

/// Where refinery notes what it has applied; nothing of ours is in `public`.
const HISTORY_TABLE: &str = "tidegate.schema_history";

/// Why a database could not be brought to this version.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MigrateError {
    /// The database cannot be reached.
    #[error("the database cannot be reached: {0}")]
    Unavailable(String),
    /// pgmq's own SQL did not go in.
    #[error("pgmq's tables could not be installed")]
    Pgmq(#[source] pgmq::PgmqError),
    /// A migration failed; nothing of it was kept.
    #[error("a migration failed, and nothing of it was kept")]
    Migration(#[source] refinery::Error),
    /// A file below `sql/` failed; the files before it were not kept either.
    #[error("sql/{file} could not be applied, and nothing of sql/ was kept: {reason}")]
    Sql {
        /// The file, below `sql/`.
        file: String,
        /// What the database said.
        reason: String,
    },
    /// The database refused something else.
    #[error("the database refused")]
    Database(#[source] tokio_postgres::Error),
}

/// What `migrate` did, or would do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Migrated {
    /// Migrations applied, in order.
    pub migrations: Vec<String>,
    /// Whether the files below `sql/` were applied again.
    pub sql_applied: bool,
}

/// The files below `sql/` that make up the schema, in the order of `sql/index.txt`.
///
/// # Panics
///
/// When the index names a file that is not there: the build is broken.
#[must_use]
pub fn sql_files() -> Vec<(&'static str, &'static str)> {
    let text = |path: &str| SQL.get_file(path).and_then(|file| file.contents_utf8());
    text("index.txt")
        .unwrap_or_default()
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|path| match text(path) {
            Some(sql) => (path, sql),
            None => panic!("sql/index.txt names {path}, which is not there"),
        })
        .collect()
}

/// A fingerprint of every migration and every file below `sql/`: databases with the same one have the same schema.
#[must_use]
pub fn fingerprint() -> String {
    let mut hash = Sha256::new();
    for migration in embedded::migrations::runner().get_migrations() {
        hash.update(migration.to_string());
        hash.update(migration.sql().unwrap_or_default());
    }
    for (path, sql) in sql_files() {
        hash.update(path);
        hash.update(sql);
    }
    hash.finalize()[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Brings the database at `url` to this version. Harmless when it is there already, or when somebody else is at it.
///
/// # Errors
///
/// [`MigrateError`], naming the file and what the database said.
pub async fn migrate(url: &str) -> Result<Migrated, MigrateError> {
    let mut session = Session::open(url).await?;
    session.lock().await?;
    // Rather fail, and be run again, than stand in front of everybody who waits behind a lock on a hot table.
    session.batch("set lock_timeout = '5s'").await?;
    if !session.has_pgmq_extension().await? {
        install_pgmq(url).await?;
    }
    session
        .batch("create schema if not exists tidegate")
        .await?;
    let report = runner()
        .run_async(&mut session.client)
        .await
        .map_err(MigrateError::Migration)?;
    let sql_applied = session.needs_sql().await?;
    if sql_applied {
        session.apply_sql().await?;
    }
    Ok(Migrated {
        migrations: report
            .applied_migrations()
            .iter()
            .map(ToString::to_string)
            .collect(),
        sql_applied,
    })
}

/// What [`migrate`] would do, without doing it.
///
/// # Errors
///
/// As [`migrate`].
pub async fn plan(url: &str) -> Result<Migrated, MigrateError> {
    let mut session = Session::open(url).await?;
    let applied = if session.exists(HISTORY_TABLE).await? {
        runner()
            .get_applied_migrations_async(&mut session.client)
            .await
            .map_err(MigrateError::Migration)?
    } else {
        Vec::new()
    };
    let pending = runner()
        .get_migrations()
        .iter()
        .filter(|migration| {
            !applied
                .iter()
                .any(|done| done.version() == migration.version())
        })
        .map(ToString::to_string)
        .collect();
    Ok(Migrated {
        migrations: pending,
        sql_applied: session.needs_sql().await?,
    })
}

fn runner() -> refinery::Runner {
    let mut runner = embedded::migrations::runner();
    runner.set_migration_table_name(HISTORY_TABLE);
    runner
}

/// pgmq brings its SQL over its own driver, in a transaction and under a lock of its own.
async fn install_pgmq(url: &str) -> Result<(), MigrateError> {
    let settings = PoolSettings {
        connections_max: 1,
        statement_timeout: Duration::from_secs(300),
        application_name: "tidegate migrate".to_owned(),
        ..PoolSettings::default()
    };
    let pool: PgPool = database::connect(url, &settings)
        .await
        .map_err(|error| MigrateError::Unavailable(error.to_string()))?;
    let installed = pgmq::install::install_sql_from_embedded(&pool).await;
    pool.close().await;
    installed.map_err(MigrateError::Pgmq)
}

/// One connection of the migrating driver. Its lock lasts as long as it does.
struct Session {
    client: tokio_postgres::Client,
}

impl Session {
    async fn open(url: &str) -> Result<Self, MigrateError> {
        let config = tokio_postgres::Config::from_str(url).map_err(|error| {
            MigrateError::Unavailable(format!("the database URL makes no sense: {error}"))
        })?;
        let (client, connection) = config
            .connect(NoTls)
            .await
            .map_err(|error| MigrateError::Unavailable(reason(&error)))?;
        // Ends by itself when the client is dropped.
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "the migrating connection ended");
            }
        });
        Ok(Self { client })
    }

    /// Waits for any other `migrate` of this database.
    async fn lock(&self) -> Result<(), MigrateError> {
        self.batch(&format!("select pg_advisory_lock({LOCK_KEY})"))
            .await
    }

    async fn batch(&self, sql: &str) -> Result<(), MigrateError> {
        self.client
            .batch_execute(sql)
            .await
            .map_err(MigrateError::Database)
    }

    async fn exists(&self, table: &str) -> Result<bool, MigrateError> {
        self.client
            .query_one("select to_regclass($1) is not null", &[&table])
            .await
            .map(|row| row.get(0))
            .map_err(MigrateError::Database)
    }

    async fn has_pgmq_extension(&self) -> Result<bool, MigrateError> {
        self.client
            .query_one(
                "select exists (select from pg_extension where extname = 'pgmq')",
                &[],
            )
            .await
            .map(|row| row.get(0))
            .map_err(MigrateError::Database)
    }

    /// Whether the files below `sql/` differ from those applied last.
    async fn needs_sql(&self) -> Result<bool, MigrateError> {
        if !self.exists("tidegate.schema_state").await? {
            return Ok(true);
        }
        let applied = self
            .client
            .query_opt("select fingerprint from tidegate.schema_state", &[])
            .await
            .map_err(MigrateError::Database)?;
        Ok(applied.is_none_or(|row| row.get::<_, String>(0) != fingerprint()))
    }

    /// Applies every file below `sql/` in one transaction, with the fingerprint.
    async fn apply_sql(&mut self) -> Result<(), MigrateError> {
        let transaction = self
            .client
            .transaction()
            .await
            .map_err(MigrateError::Database)?;
        // A hot table is not waited for behind a long transaction with everybody else queueing up behind us.
        transaction
            .batch_execute("set local lock_timeout = '5s'; set local client_min_messages = warning")
            .await
            .map_err(MigrateError::Database)?;
        for (file, sql) in sql_files() {
            transaction
                .batch_execute(sql)
                .await
                .map_err(|error| MigrateError::Sql {
                    file: file.to_owned(),
                    reason: reason(&error),
                })?;
        }
        transaction
            .batch_execute("select tidegate.make_partitions()")
            .await
            .map_err(MigrateError::Database)?;
        transaction
            .execute(
                "insert into tidegate.schema_state as s (fingerprint, version) values ($1, $2)
                 on conflict (only_row) do update
                 set fingerprint = excluded.fingerprint, version = excluded.version, applied_at = clock_timestamp()",
                &[&fingerprint(), &env!("CARGO_PKG_VERSION")],
            )
            .await
            .map_err(MigrateError::Database)?;
        transaction.commit().await.map_err(MigrateError::Database)
    }
}

/// What the server said, with its hint; the driver's own text says only "db error".
fn reason(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(said) => match said.hint() {
            Some(hint) => format!("{}; {hint}", said.message()),
            None => said.message().to_owned(),
        },
        None => match std::error::Error::source(error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        },
    }
}
