//! The database of a program: a URL, or the embedded server.

use std::{fs, path::PathBuf};

use anyhow::Context;
use clap::Args;
use tidegate::internals::{
    database::{self, PoolSettings},
    store::Store,
};

use crate::embedded_postgres::{EmbeddedPostgres, EmbeddedPostgresError, Options};

/// The hidden subcommand of each of Tidegate's programs that stops the embedded server when no process uses it any
/// more.
pub const KEEPER_COMMAND: &str = "embedded-postgres-keeper";

/// The database's name in the embedded server.
const EMBEDDED_DATABASE: &str = "tidegate";

/// The options that name the database of a program.
#[derive(Debug, Clone, Args)]
pub struct DatabaseArgs {
    /// The database, such as `postgres://user@host/name`
    #[arg(long, value_name = "URL", env = "DATABASE_URL", global = true, hide_env_values = true)]
    pub database_url: Option<String>,
    /// A file that has the URL, if it is not given otherwise
    #[arg(long, value_name = "FILE", env = "DATABASE_URL_FILE", global = true)]
    pub database_url_file: Option<PathBuf>,
}

impl DatabaseArgs {
    /// Where the database is.
    ///
    /// # Errors
    ///
    /// When the file cannot be read, and those of [`DatabaseLocation::find`].
    pub async fn locate(self) -> anyhow::Result<DatabaseLocation> {
        let mut url = self.database_url.filter(|url| !url.is_empty());
        if let (None, Some(file)) = (&url, self.database_url_file) {
            let unreadable = || format!("there is no database URL in the file {}", file.display());
            let text = fs::read_to_string(&file).with_context(unreadable)?;
            url = Some(text.trim().to_owned());
            anyhow::ensure!(!text.trim().is_empty(), unreadable());
        }
        DatabaseLocation::find(url)
            .await
            .context("there is no database URL, and the embedded PostgreSQL cannot be used")
    }
}

/// A database to connect to. If it is in the embedded server, the server runs at least as long as this value lives.
#[derive(Debug)]
pub struct DatabaseLocation {
    /// For sqlx and psql alike.
    pub url: String,
    embedded: Option<EmbeddedPostgres>,
}

impl DatabaseLocation {
    /// The URL given, or else the embedded server's, which is started when it is not running.
    ///
    /// # Errors
    ///
    /// When there is no URL, and no PostgreSQL on this machine or it does not start.
    pub async fn find(url: Option<String>) -> Result<Self, EmbeddedPostgresError> {
        if let Some(url) = url.filter(|url| !url.is_empty()) {
            return Ok(Self { url, embedded: None });
        }
        let directory = EmbeddedPostgres::default_directory();
        let program = std::env::current_exe().ok();
        let keeper = program.map(|program| vec![program.into(), KEEPER_COMMAND.into(), directory.clone().into()]);
        let options = Options { directory, durable: true, keeper };
        let started = tokio::task::spawn_blocking(move || {
            let server = EmbeddedPostgres::start(&options)?;
            server.ensure_database(EMBEDDED_DATABASE)?;
            Ok(server)
        });
        let server = started.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?;
        Ok(Self { url: server.url(EMBEDDED_DATABASE), embedded: Some(server) })
    }

    /// A store over it, which is of this version.
    ///
    /// # Errors
    ///
    /// When it cannot be reached, or is not of this version.
    pub async fn open(&self, settings: &PoolSettings) -> anyhow::Result<Store> {
        let pool = database::connect(&self.url, settings)
            .await
            .context("check the URL (`--database-url` or DATABASE_URL) and that PostgreSQL is running")?;
        let store = Store::new(pool);
        let ready = store.check_ready().await;
        if self.is_embedded() {
            ready.with_context(|| format!("the private database {} (DATABASE_URL names another)", self.url))?;
        } else {
            ready?;
        }
        Ok(store)
    }

    /// Whether this is the embedded server.
    #[must_use]
    pub fn is_embedded(&self) -> bool {
        self.embedded.is_some()
    }
}
