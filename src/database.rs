//! Where the database is, and a pool of connections to it.

use std::time::Duration;

use sqlx::{
    ConnectOptions, Connection, PgConnection, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};

use crate::error::StoreError;

/// How a process talks to the database.
#[derive(Debug, Clone)]
pub struct PoolSettings {
    /// Connections at most.
    pub connections_max: u32,
    /// How long a caller waits for a free connection before it gets an error.
    pub acquire_timeout: Duration,
    /// How long the database works on one statement before it gives up.
    pub statement_timeout: Duration,
    /// What `pg_stat_activity` shows.
    pub application_name: String,
}

impl Default for PoolSettings {
    fn default() -> Self {
        Self {
            connections_max: 10,
            acquire_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(15),
            application_name: "tidegate".to_owned(),
        }
    }
}

/// Connects to `url` and makes sure that the database answers.
///
/// # Errors
///
/// [`StoreError::Unavailable`] when it does not, or when the URL makes no sense.
pub async fn connect(url: &str, settings: &PoolSettings) -> Result<PgPool, StoreError> {
    let options = options(url, settings)?;
    // The pool would only say that it waited: one connection outside it says why there is none.
    let first = PgConnection::connect_with(&options);
    match tokio::time::timeout(settings.acquire_timeout, first).await {
        Ok(connected) => connected?.close().await?,
        Err(_) => {
            return Err(StoreError::Unavailable(format!(
                "{} does not answer within {} s",
                options.get_host(),
                settings.acquire_timeout.as_secs()
            )));
        }
    }
    PgPoolOptions::new()
        .max_connections(settings.connections_max)
        .acquire_timeout(settings.acquire_timeout)
        .connect_with(options)
        .await
        .map_err(StoreError::from)
}

/// A pool that connects when it is first used.
///
/// # Errors
///
/// [`StoreError::Unavailable`] when the URL cannot be read.
pub fn connect_lazily(url: &str, settings: &PoolSettings) -> Result<PgPool, StoreError> {
    Ok(PgPoolOptions::new()
        .max_connections(settings.connections_max)
        .acquire_timeout(settings.acquire_timeout)
        .connect_lazy_with(options(url, settings)?))
}

/// One connection for a [listener](crate::listener::listen), made when it is first used: notifications are hints, so a
/// program starts without them.
///
/// # Errors
///
/// As [`connect_lazily`].
pub fn connect_to_listen(url: &str, settings: &PoolSettings) -> Result<PgPool, StoreError> {
    let settings = PoolSettings {
        connections_max: 1,
        ..settings.clone()
    };
    connect_lazily(url, &settings)
}

fn options(url: &str, settings: &PoolSettings) -> Result<PgConnectOptions, StoreError> {
    let options: PgConnectOptions = url.parse().map_err(|error: sqlx::Error| {
        StoreError::Unavailable(format!("the database URL makes no sense: {error}"))
    })?;
    Ok(options
        .application_name(&settings.application_name)
        // Slow statements are the database's to log; here they would flood the log after every stall.
        .disable_statement_logging()
        // Acknowledged means durable, whatever the server's default is.
        .options([
            ("synchronous_commit", "on".to_owned()),
            (
                "statement_timeout",
                settings.statement_timeout.as_millis().to_string(),
            ),
            ("idle_in_transaction_session_timeout", "60000".to_owned()),
            ("jit", "off".to_owned()),
        ]))
}
