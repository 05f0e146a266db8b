//! The database of a program: a URL, or the embedded server.

use crate::embedded_postgres::{EmbeddedPostgres, EmbeddedPostgresError, Options};

/// The hidden subcommand of each of Tidegate's programs that stops the embedded server when no process uses it any
/// more.
pub const KEEPER_COMMAND: &str = "embedded-postgres-keeper";

/// The database's name in the embedded server.
const EMBEDDED_DATABASE: &str = "tidegate";

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
        let options = Options {
            directory,
            durable: true,
            keeper,
        };
        let started = tokio::task::spawn_blocking(move || {
            let server = EmbeddedPostgres::start(&options)?;
            server.ensure_database(EMBEDDED_DATABASE)?;
            Ok(server)
        });
        let server = started
            .await
            .unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?;
        Ok(Self {
            url: server.url(EMBEDDED_DATABASE),
            embedded: Some(server),
        })
    }

    /// Whether this is the embedded server.
    #[must_use]
    pub fn is_embedded(&self) -> bool {
        self.embedded.is_some()
    }
}
