//! Brings a database to this version: pgmq's SQL, the migrations, and then everything below `sql/`, whole.
//!
//! Migrations hold the tables and run once each, by refinery. `sql/` holds the objects without data (functions, triggers, views,
//! rules, grants): each of its files has one home and is applied again whenever any of them has changed.

mod comments;
mod error;
mod fitness;
mod functions;
mod history;
mod migrations;
mod order;
mod session;

use std::{
    sync::LazyLock,
    time::{Duration, Instant},
};

use include_dir::{Dir, include_dir};
use refinery_core::Migration;
use serde::Serialize;

use self::session::{APPLICATION_NAME, Session};
pub use self::{
    error::{MigrateError, StatementError},
    migrations::Migrations,
};
use crate::{
    database::{self, PoolSettings},
    sql_files,
};

static MIGRATIONS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/migrations");

/// The number of this build, and the fingerprint of its SQL.
const BUILD: &str = include_str!("schema/build");

/// The schema of Tidegate.
static TIDEGATE: LazyLock<Migrations> = LazyLock::new(|| {
    let files = MIGRATIONS.files().filter_map(|file| {
        let name = file.path().file_stem()?.to_str()?;
        Some((name, file.contents_utf8()?))
    });
    let new = Migrations::new("tidegate").build(build());
    let tidegate = files.fold(new, |all, (name, sql)| all.file(name, sql));
    let functions = order::in_order(sql_files::all()).into_iter();
    functions.fold(tidegate, |all, (path, sql)| all.function(path, sql))
});

/// How `migrate` treats what it finds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MigrateOptions {
    /// Replaces the functions of a later build by this program's.
    pub downgrade: bool,
    /// Makes no group role: grants rights to those that are there.
    pub existing_roles: bool,
}

/// The result or the plan of `migrate`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Migrated {
    /// Migrations applied, in order.
    pub migrations: Vec<String>,
    /// Whether functions were applied again: the files below `sql/`, or those of a program.
    pub sql_applied: bool,
}

/// The files below `sql/` that make up the schema, each after those that it needs.
#[must_use]
pub fn sql_files() -> Vec<(&'static str, &'static str)> {
    TIDEGATE.functions.clone()
}

/// The number of this build of the schema: each change of the SQL has the next one.
#[must_use]
pub fn build() -> i32 {
    let (number, _) = BUILD.split_once(' ').expect("a number and a fingerprint of it");
    number.parse().expect("a number")
}

/// A fingerprint of every migration and every file below `sql/`: databases with the same one have the same schema.
#[must_use]
pub fn fingerprint() -> String {
    TIDEGATE.fingerprint()
}

/// Brings the database at `url` to this version. Harmless when it has this version already, or another process migrates
/// it.
///
/// # Errors
///
/// [`MigrateError`], with the file and the error of the database.
pub async fn migrate(url: &str) -> Result<Migrated, MigrateError> {
    migrate_with(url, &[]).await
}

/// As [`migrate`], and then the schemas of programs that embed Tidegate, in order.
///
/// # Errors
///
/// As [`migrate`]; a database that has a program's migration with another text is refused before anything changes.
pub async fn migrate_with(url: &str, programs: &[Migrations]) -> Result<Migrated, MigrateError> {
    migrate_as(url, programs, MigrateOptions::default()).await
}

/// As [`migrate_with`], with options.
///
/// # Errors
///
/// As there.
pub async fn migrate_as(url: &str, programs: &[Migrations], options: MigrateOptions) -> Result<Migrated, MigrateError> {
    programs.iter().try_for_each(Migrations::check_name)?;
    let all: Vec<&Migrations> = [&*TIDEGATE].into_iter().chain(programs).collect();
    let mut session = Session::open(url).await?;
    session.lock().await?;
    session.check_fitness(&all).await?;
    if options.existing_roles {
        session.make_no_role().await?;
    }
    let mut sets = Vec::new();
    for set in all {
        sets.push((set, session.history(set)?.pending().await?));
        if !options.downgrade {
            session.check_build(set).await?;
        }
    }
    if !session.has_pgmq_extension().await? {
        install_pgmq(url).await?;
    }
    let was_there = session.exists("tidegate.schema_state").await?;
    let mut migrated = Migrated::default();
    for (set, pending) in sets {
        let began = Instant::now();
        while let Err(error) = session.history(set)?.apply().await {
            session.wait_for_lock(began, error).await?;
        }
        let sql_applied = !pending.is_empty() || session.needs_sql(set).await?;
        while sql_applied && let Err(error) = session.apply_sql(set).await {
            session.wait_for_lock(began, error).await?;
        }
        migrated.migrations.extend(names(&pending));
        migrated.sql_applied |= sql_applied;
        if sql_applied && was_there && set.schema == TIDEGATE.schema {
            session.correct_counts().await?;
        }
    }
    Ok(migrated)
}

/// The plan of [`migrate_as`] without programs, and without a change.
///
/// # Errors
///
/// As [`migrate`].
pub async fn plan(url: &str, options: MigrateOptions) -> Result<Migrated, MigrateError> {
    let mut session = Session::open(url).await?;
    session.check_fitness(&[&TIDEGATE]).await?;
    let pending = session.history(&TIDEGATE)?.pending().await?;
    if !options.downgrade {
        session.check_build(&TIDEGATE).await?;
    }
    Ok(Migrated {
        sql_applied: !pending.is_empty() || session.needs_sql(&TIDEGATE).await?,
        migrations: names(&pending),
    })
}

fn names(migrations: &[Migration]) -> Vec<String> {
    migrations.iter().map(Migration::to_string).collect()
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
