//! The connection settings, and pools of connections.

use std::{env, fs::File, time::Duration};

use percent_encoding::percent_decode_str;
use sqlx::{
    ConnectOptions, Connection, PgConnection, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions, PgSslMode},
};

use crate::error::StoreError;

/// The settings of a process's connections.
#[derive(Debug, Clone)]
pub struct PoolSettings {
    /// Connections at most.
    pub connections_max: u32,
    /// How long a caller waits for a free connection before it gets an error.
    pub acquire_timeout: Duration,
    /// The `statement_timeout` of a session.
    pub statement_timeout: Duration,
    /// The name that `pg_stat_activity` shows.
    pub application_name: String,
}

/// An idle connection is pinged before a use after this time.
const IDLE: Duration = Duration::from_secs(1);

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
/// When a pooler refuses the settings of a session, a warning lists the settings for the database's user.
///
/// # Errors
///
/// [`StoreError::Unavailable`] when it does not, or when the URL cannot be read.
pub async fn connect(url: &str, settings: &PoolSettings) -> Result<PgPool, StoreError> {
    let mut options = options(url, settings)?;
    // The pool's error has no reason: one connection outside of it finds the reason.
    match probe(&options, settings).await {
        Err(error) if refuses_settings(&error) => {
            options = plain_options(url, settings)?;
            probe(&options, settings).await?;
            tracing::warn!(
                host = options.get_host(),
                "a pooler takes no settings with a connection: set them for the database's user, {}",
                SETTINGS.map(|(name, value)| format!("{name} = '{value}'")).join(", "),
            );
        }
        tried => tried?,
    }
    pool(settings).connect_with(options).await.map_err(StoreError::from)
}

/// A pool that pings a connection before a use only when it has been idle: a ping before each use would cost every
/// statement a round trip.
fn pool(settings: &PoolSettings) -> PgPoolOptions {
    PgPoolOptions::new()
        .max_connections(settings.connections_max)
        .acquire_timeout(settings.acquire_timeout)
        .test_before_acquire(false)
        .before_acquire(|connection, used| {
            Box::pin(async move { Ok(used.idle_for < IDLE || connection.ping().await.is_ok()) })
        })
}

/// Opens a connection and closes it.
async fn probe(options: &PgConnectOptions, settings: &PoolSettings) -> Result<(), StoreError> {
    Ok(open(options, settings.acquire_timeout).await?.close().await?)
}

/// A connection, or the reason why there is none within the time limit.
async fn open(options: &PgConnectOptions, time_limit: Duration) -> Result<PgConnection, StoreError> {
    match tokio::time::timeout(time_limit, PgConnection::connect_with(options)).await {
        Ok(connected) => Ok(connected?),
        Err(_) => Err(StoreError::Unavailable(format!(
            "{}:{} does not answer within {} s",
            options.get_host(),
            options.get_port(),
            time_limit.as_secs()
        ))),
    }
}

/// One connection without the settings of a pool's sessions.
///
/// # Errors
///
/// As [`connect`].
pub(crate) async fn connect_one(url: &str, application_name: &str) -> Result<PgConnection, StoreError> {
    let settings = PoolSettings {
        application_name: application_name.to_owned(),
        ..PoolSettings::default()
    };
    open(&plain_options(url, &settings)?, settings.acquire_timeout).await
}

/// Whether a pooler refused the parameters of the connection. PgBouncer gives no code for that, only a message.
fn refuses_settings(error: &StoreError) -> bool {
    matches!(error, StoreError::Unavailable(why) if why.contains("startup parameter"))
}

/// A pool that connects when it is first used.
///
/// # Errors
///
/// [`StoreError::Unavailable`] when the URL cannot be read.
pub fn connect_lazily(url: &str, settings: &PoolSettings) -> Result<PgPool, StoreError> {
    Ok(pool(settings).connect_lazy_with(options(url, settings)?))
}

/// One connection for a [listener](crate::listener::listen), made when it is first used: notifications are hints, so a
/// program starts without them.
///
/// # Errors
///
/// As [`connect_lazily`].
pub fn connect_to_listen(url: &str, settings: &PoolSettings) -> Result<PgPool, StoreError> {
    Ok(PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(settings.acquire_timeout)
        .connect_lazy_with(plain_options(url, settings)?))
}

/// The settings of every session, independent of the defaults of server, database and user.
const SETTINGS: [(&str, &str); 9] = [
    // Acknowledged means durable.
    ("synchronous_commit", "on"),
    ("idle_in_transaction_session_timeout", "60s"),
    // Functions that must not wait for long set a limit of their own.
    ("lock_timeout", "0"),
    // A statement of a killed program is cancelled.
    ("client_connection_check_interval", "1s"),
    ("jit", "off"),
    ("default_transaction_isolation", "read committed"),
    ("default_transaction_deferrable", "off"),
    ("standard_conforming_strings", "on"),
    // Functions and operators of other schemas are never found.
    ("search_path", "pg_catalog,pg_temp"),
];

fn options(url: &str, settings: &PoolSettings) -> Result<PgConnectOptions, StoreError> {
    let statement_timeout = settings.statement_timeout.as_millis().to_string();
    Ok(plain_options(url, settings)?
        .options(SETTINGS.map(|(name, value)| (name, value.replace(' ', "\\ "))))
        .options([("statement_timeout", statement_timeout)]))
}

/// The options that a pooler accepts.
fn plain_options(url: &str, settings: &PoolSettings) -> Result<PgConnectOptions, StoreError> {
    let options: PgConnectOptions = url
        .parse()
        .map_err(|error: sqlx::Error| StoreError::Unavailable(format!("the database URL cannot be read: {error}")))?;
    if !matches!(options.get_ssl_mode(), PgSslMode::Disable | PgSslMode::Allow) {
        check_tls_files(url)?;
    }
    Ok(options
        .application_name(&settings.application_name)
        .extra_float_digits(None)
        // The database logs slow statements; here they would flood the log after every stall.
        .disable_statement_logging())
}

/// The parameters of a URL that name files for TLS, and the variables that stand in for them.
const TLS_FILES: [(&str, &str); 3] = [
    ("sslrootcert", "PGSSLROOTCERT"),
    ("sslcert", "PGSSLCERT"),
    ("sslkey", "PGSSLKEY"),
];

/// Refuses files that cannot be read: the driver's own error does not name them.
fn check_tls_files(url: &str) -> Result<(), StoreError> {
    let parameters = url.split_once('?').map_or("", |(_, parameters)| parameters);
    for (parameter, variable) in TLS_FILES {
        let mut pairs = parameters.split('&').filter_map(|pair| pair.split_once('='));
        let given = pairs.rfind(|(name, _)| *name == parameter);
        let file = match given {
            Some((_, value)) => Some(percent_decode_str(value).decode_utf8_lossy().into_owned()),
            None => env::var(variable).ok(),
        };
        // The driver also takes the text of a certificate.
        let file = file.filter(|file| !file.trim_start().starts_with("-----BEGIN"));
        if let Some(file) = file
            && let Err(error) = File::open(&file)
        {
            return Err(StoreError::Unavailable(format!(
                "{parameter} names the file {file}, which cannot be read: {error}"
            )));
        }
    }
    Ok(())
}
