//! A PostgreSQL server of one run.

use anyhow::Context as _;
use tempfile::TempDir;
use tidegate_cli::embedded_postgres::{EmbeddedPostgres, Options};

/// A server with one empty database. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) url: String,
    _server: EmbeddedPostgres,
    _directory: TempDir,
}

impl Database {
    pub(crate) async fn start() -> anyhow::Result<Database> {
        tokio::task::spawn_blocking(|| {
            let directory = tempfile::tempdir()?;
            let options = Options { directory: directory.path().join("postgres"), durable: false, keeper: None };
            let server = EmbeddedPostgres::start(&options).context("cannot start PostgreSQL: run `make setup`")?;
            server.ensure_database("relayer")?;
            Ok(Database { url: server.url("relayer"), _server: server, _directory: directory })
        })
        .await?
    }
}
