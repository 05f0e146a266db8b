//! A PostgreSQL of one test's own, for settings that concern a whole server.

use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use sqlx::{Connection, PgConnection};
use tempfile::TempDir;
use tidegate_cli::embedded_postgres::{EmbeddedPostgres, Options};

use crate::support::{server::KEEPER, sql};

/// The server, its socket and its files. It ends with the value.
pub struct Cluster {
    server: Option<Arc<EmbeddedPostgres>>,
    directory: TempDir,
}

impl Cluster {
    pub async fn start() -> Self {
        Self::start_in(Self::directory()).await
    }

    /// An empty directory for a cluster, in memory if there is a file system for it.
    pub fn directory() -> TempDir {
        let memory = Path::new("/dev/shm");
        let above = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        // PostgreSQL runs as another account when this process is root.
        tempfile::Builder::new()
            .prefix("tidegate-test-")
            .permissions(PermissionsExt::from_mode(0o755))
            .tempdir_in(above)
            .unwrap()
    }

    /// The cluster in a directory, made there if it is empty.
    pub async fn start_in(directory: TempDir) -> Self {
        let path = directory.path().to_owned();
        let options = Options {
            directory: path.clone(),
            durable: false,
            keeper: Some(vec![KEEPER.into(), "embedded-postgres-keeper".into(), path.into()]),
        };
        let server = tokio::task::spawn_blocking(move || EmbeddedPostgres::start(&options));
        Self { server: Some(Arc::new(server.await.unwrap().unwrap())), directory }
    }

    pub fn server(&self) -> &Arc<EmbeddedPostgres> {
        self.server.as_ref().unwrap()
    }

    /// The URL of a database through the socket.
    pub fn url(&self, database: &str) -> String {
        self.server().url(database)
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Where PostgreSQL has its files.
    pub fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    /// A session of the superuser.
    pub async fn session(&self) -> PgConnection {
        PgConnection::connect(&self.url("postgres")).await.unwrap()
    }

    /// Runs statements, each in a transaction of its own.
    pub async fn execute(&self, statements: &[&str]) {
        let mut session = self.session().await;
        for statement in statements {
            sql::run(&mut session, statement).await;
        }
    }

    pub async fn restart(&self) {
        let server = Arc::clone(self.server());
        let restarted = tokio::task::spawn_blocking(move || server.restart());
        restarted.await.unwrap().unwrap();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let server = self.server.take().and_then(Arc::into_inner);
        if let Some(Err(error)) = server.map(EmbeddedPostgres::stop) {
            eprintln!("{}: {error}", self.path().display());
        }
    }
}
