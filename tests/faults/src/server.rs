//! The private `PostgreSQL` server of a run, and its faults.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use percent_encoding::percent_decode_str;
use sqlx::{Connection, PgConnection};
use tidegate_cli::{
    database_location::KEEPER_COMMAND,
    embedded_postgres::{EmbeddedPostgres, Options},
};

/// The database of a run.
pub const DATABASE: &str = "tidegate";

/// A private server.
#[derive(Debug, Clone)]
pub struct Server(Arc<EmbeddedPostgres>);

impl Server {
    /// Makes and starts one in `directory`, which survives what this process does not: `keeper` stops the server then.
    ///
    /// # Errors
    ///
    /// When there is no `PostgreSQL` on this machine, or it does not start.
    pub async fn start(directory: &Path, keeper: &Path) -> anyhow::Result<Self> {
        let options = Options {
            directory: directory.to_owned(),
            durable: true,
            keeper: Some(vec![keeper.into(), OsString::from(KEEPER_COMMAND), directory.into()]),
        };
        let server = tokio::task::spawn_blocking(move || {
            let server = EmbeddedPostgres::start(&options)?;
            server.ensure_database(DATABASE)?;
            anyhow::Ok(server)
        })
        .await??;
        Ok(Self(Arc::new(server)))
    }

    /// The URL of a database, past every proxy.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        self.0.url(database)
    }

    /// The socket that the server listens on.
    ///
    /// # Errors
    ///
    /// When the URL does not name it, which would be a fault of this program.
    pub fn socket(&self) -> anyhow::Result<PathBuf> {
        let url = self.url(DATABASE);
        let host = url
            .split_once('@')
            .and_then(|(_, rest)| rest.split_once(":5432"))
            .map(|(host, _)| percent_decode_str(host).decode_utf8_lossy().into_owned())
            .context("the server's URL names no socket")?;
        Ok(Path::new(&host).join(".s.PGSQL.5432"))
    }

    /// One of `PostgreSQL`'s programs, of the same version.
    #[must_use]
    pub fn program(&self, name: &str) -> PathBuf {
        let beside = self.0.bin().join(name);
        if beside.is_file() { beside } else { name.into() }
    }

    /// Where the server keeps everything.
    #[must_use]
    pub fn directory(&self) -> &Path {
        self.0.directory()
    }

    /// A session of its own, past every proxy.
    ///
    /// # Errors
    ///
    /// When the server does not take one.
    pub async fn session(&self) -> anyhow::Result<PgConnection> {
        Ok(PgConnection::connect(&self.url(DATABASE)).await?)
    }

    /// SIGKILL for its first process; the others notice, and end.
    ///
    /// # Errors
    ///
    /// When it cannot be signalled.
    pub async fn crash(&self) -> anyhow::Result<()> {
        let server = self.0.clone();
        tokio::task::spawn_blocking(move || server.kill()).await??;
        Ok(())
    }

    /// SIGQUIT: an immediate shutdown, which is a crash that leaves no process behind.
    ///
    /// # Errors
    ///
    /// When it cannot be signalled.
    pub fn stop_immediately(&self) -> anyhow::Result<()> {
        if let Some(pid) = self.0.postmaster_pid() {
            kill(Pid::from_raw(i32::try_from(pid)?), Signal::SIGQUIT)?;
        }
        Ok(())
    }

    /// Ends the server if it runs, and starts it again.
    ///
    /// # Errors
    ///
    /// When it does not start.
    pub async fn restart(&self) -> anyhow::Result<()> {
        let server = self.0.clone();
        tokio::task::spawn_blocking(move || server.restart()).await??;
        Ok(())
    }

    /// Ends it permanently, even if it is in use; returns when it is gone.
    ///
    /// # Errors
    ///
    /// When it cannot be signalled, or does not end.
    pub async fn end(&self) -> anyhow::Result<()> {
        self.stop_immediately()?;
        for _ in 0..600 {
            if self.0.postmaster_pid().is_none() {
                return Ok(());
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        anyhow::bail!("the server in {} does not end", self.directory().display())
    }
}
