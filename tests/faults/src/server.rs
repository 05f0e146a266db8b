//! The database of a run, a private `PostgreSQL` server or a cluster of several, and its faults.

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

use crate::{
    cluster::{Cluster, Replication},
    proxy::Upstream,
};

/// The database of a run.
pub const DATABASE: &str = "tidegate";

/// The server, or what stands in front of several.
#[derive(Debug, Clone)]
pub enum Server {
    /// A private one.
    Private(Arc<EmbeddedPostgres>),
    /// A cluster whose leader changes.
    Cluster(Arc<Cluster>),
}

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
        Ok(Self::Private(Arc::new(server)))
    }

    /// Makes and starts a cluster in `directory`, with the programs below `tools`.
    ///
    /// # Errors
    ///
    /// When a program is missing, or the cluster does not come up.
    pub async fn start_cluster(tools: &Path, directory: &Path, replication: Replication) -> anyhow::Result<Self> {
        Ok(Self::Cluster(Arc::new(Cluster::start(tools, directory, replication).await?)))
    }

    fn private(&self) -> anyhow::Result<&Arc<EmbeddedPostgres>> {
        match self {
            Self::Private(server) => Ok(server),
            Self::Cluster(_) => anyhow::bail!("the database is a cluster"),
        }
    }

    /// The cluster.
    ///
    /// # Errors
    ///
    /// When the database is none.
    pub fn cluster(&self) -> anyhow::Result<Arc<Cluster>> {
        match self {
            Self::Private(_) => anyhow::bail!("the database is one server"),
            Self::Cluster(cluster) => Ok(cluster.clone()),
        }
    }

    /// The URL of a database, past every proxy of the run.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        match self {
            Self::Private(server) => server.url(database),
            Self::Cluster(cluster) => cluster.url(database),
        }
    }

    /// Where proxies lead to.
    ///
    /// # Errors
    ///
    /// When the URL of a private server names no socket, which would be a fault of this program.
    pub fn upstream(&self) -> anyhow::Result<Upstream> {
        match self {
            Self::Private(_) => Ok(Upstream::Unix(self.socket()?)),
            Self::Cluster(cluster) => Ok(Upstream::Tcp(vec![cluster.address])),
        }
    }

    /// The socket that a private server listens on.
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

    /// One of `PostgreSQL`'s programs, of the version of a private server.
    ///
    /// # Errors
    ///
    /// For a cluster.
    pub fn program(&self, name: &str) -> anyhow::Result<PathBuf> {
        let beside = self.private()?.bin().join(name);
        Ok(if beside.is_file() { beside } else { name.into() })
    }

    /// Where a private server keeps everything.
    ///
    /// # Errors
    ///
    /// For a cluster.
    pub fn directory(&self) -> anyhow::Result<&Path> {
        Ok(self.private()?.directory())
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
        let server = self.private()?.clone();
        tokio::task::spawn_blocking(move || server.kill()).await??;
        Ok(())
    }

    /// SIGQUIT: an immediate shutdown, which is a crash that leaves no process behind.
    ///
    /// # Errors
    ///
    /// When it cannot be signalled.
    pub fn stop_immediately(&self) -> anyhow::Result<()> {
        if let Some(pid) = self.private()?.postmaster_pid() {
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
        let server = self.private()?.clone();
        tokio::task::spawn_blocking(move || server.restart()).await??;
        Ok(())
    }

    /// Ends it permanently, even if it is in use; returns when it is gone.
    ///
    /// # Errors
    ///
    /// When it cannot be signalled, or does not end.
    pub async fn end(&self) -> anyhow::Result<()> {
        if let Self::Cluster(cluster) = self {
            return cluster.end();
        }
        self.stop_immediately()?;
        let server = self.private()?;
        for _ in 0..600 {
            if server.postmaster_pid().is_none() {
                return Ok(());
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        anyhow::bail!("the server in {} does not end", server.directory().display())
    }
}
