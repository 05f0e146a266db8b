//! The connection settings, and pools of connections.

mod primary;
mod url;

use std::{
    ops::Deref,
    time::{Duration, Instant},
};

use sqlx::{
    ConnectOptions, Connection, PgConnection, PgPool, Postgres,
    pool::{PoolConnection, PoolConnectionMetadata},
    postgres::{PgConnectOptions, PgPoolOptions},
};

use self::primary::Servers;
pub use self::url::with_database;
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

/// A pool of connections. Those of a URL with several hosts lead to the server that takes writes.
///
/// Used as a pool only, it stays with the server that was the primary when its store last took a connection.
#[derive(Debug, Clone)]
pub struct Database {
    pool: PgPool,
    servers: Option<Servers>,
}

impl From<PgPool> for Database {
    /// A pool that stays with its server.
    fn from(pool: PgPool) -> Self {
        Self { pool, servers: None }
    }
}

impl Deref for Database {
    type Target = PgPool;

    fn deref(&self) -> &PgPool {
        &self.pool
    }
}

impl Database {
    /// The pool, whose new connections lead to the primary of this moment.
    #[must_use]
    pub fn pool(&self) -> &PgPool {
        if let Some(servers) = &self.servers {
            servers.lead(&self.pool);
        }
        &self.pool
    }

    /// The same database over a pool of its own, connected when it is first used.
    pub(crate) fn with_own_pool(&self, connections: u32, application_name: Option<&str>) -> Self {
        let mut options = PgConnectOptions::clone(&self.pool().connect_options());
        let mut servers = self.servers.clone();
        if let Some(name) = application_name {
            options = options.application_name(name);
            servers = servers.map(|servers| servers.named(name));
        }
        let pool = self.pool.options().clone().min_connections(0);
        Self {
            pool: pool.max_connections(connections).connect_lazy_with(options),
            servers,
        }
    }

    /// A connection to the primary.
    pub(crate) async fn acquire(&self) -> sqlx::Result<PoolConnection<Postgres>> {
        self.on_primary(|pool| async move { pool.acquire().await }).await
    }

    /// Calls `connect` with the pool, and again when another server becomes the primary meanwhile.
    pub(crate) async fn on_primary<T, C: Future<Output = T>>(&self, connect: impl Fn(PgPool) -> C) -> T {
        loop {
            let began = Instant::now();
            tokio::select! {
                biased;
                connected = connect(self.pool().clone()) => return connected,
                () = self.moved(began) => {}
            }
        }
    }

    /// Whether another server has become the primary since.
    pub(crate) fn has_moved(&self, since: Instant) -> bool {
        self.servers.as_ref().is_some_and(|servers| servers.have_moved(since))
    }

    /// Waits until another server has become the primary since; for ever where there is only one.
    pub(crate) async fn moved(&self, since: Instant) {
        match &self.servers {
            Some(servers) => servers.moved(since).await,
            None => std::future::pending().await,
        }
    }
}

/// Connects to `url` and makes sure that the database answers; if the URL names several hosts, to the one that takes
/// writes.
///
/// When a pooler refuses the settings of a session, a warning lists the settings for the database's user.
///
/// # Errors
///
/// [`StoreError::Unavailable`] when it does not, or when the URL cannot be read.
pub async fn connect(url: &str, settings: &PoolSettings) -> Result<Database, StoreError> {
    let plain = plain_options(url, settings)?;
    let mut options = with_settings(plain.clone(), settings);
    // The pool's error has no reason: one connection outside of it finds the reason.
    let primary = match probe(&options, settings).await {
        Err(error) if refuses_settings(&error) => {
            options = plain;
            let primary = probe(&options, settings).await?;
            tracing::warn!(
                host = options[primary].get_host(),
                "a pooler takes no settings with a connection: set them for the database's user, {}",
                SETTINGS.map(|(name, value)| format!("{name} = '{value}'")).join(", "),
            );
            primary
        }
        tried => tried?,
    };
    let (pool, options, servers) = parts(pool(settings), options, primary);
    let pool = pool.connect_with(options).await?;
    Ok(Database { pool, servers })
}

/// A pool that pings a connection before a use only when it has been idle: a ping before each use would cost every
/// statement a round trip.
fn pool(settings: &PoolSettings) -> PgPoolOptions {
    PgPoolOptions::new()
        .max_connections(settings.connections_max)
        .acquire_timeout(settings.acquire_timeout)
        .test_before_acquire(false)
        .before_acquire(|connection, used| Box::pin(async move { Ok(is_alive(connection, used).await) }))
}

async fn is_alive(connection: &mut PgConnection, used: PoolConnectionMetadata) -> bool {
    used.idle_for < IDLE || connection.ping().await.is_ok()
}

/// The parts of a [`Database`] whose pool connects to the server of this number first. If there are several, its
/// connections end when they do not lead to the primary.
fn parts(
    pool: PgPoolOptions,
    mut options: Vec<PgConnectOptions>,
    first: usize,
) -> (PgPoolOptions, PgConnectOptions, Option<Servers>) {
    if options.len() == 1 {
        return (pool, options.remove(0), None);
    }
    let first_options = options[first].clone();
    let servers = Servers::follow(options, first);
    let of_pool = servers.clone();
    let pool = pool
        .after_connect(|connection, _| Box::pin(primary::check(connection)))
        .before_acquire(move |connection, used| {
            let opened = Instant::now().checked_sub(used.age);
            let leads_there = opened.is_some_and(|opened| !of_pool.have_moved(opened));
            Box::pin(async move { Ok(leads_there && is_alive(connection, used).await) })
        });
    (pool, first_options, Some(servers))
}

/// Opens a connection and closes it; returns the number of its server.
async fn probe(options: &[PgConnectOptions], settings: &PoolSettings) -> Result<usize, StoreError> {
    let (primary, connection) = primary::find(options, settings.acquire_timeout).await?;
    connection.close().await?;
    Ok(primary)
}

/// A connection, or the reason why there is none within the time limit.
async fn open(options: &PgConnectOptions, time_limit: Duration) -> Result<PgConnection, StoreError> {
    match tokio::time::timeout(time_limit, PgConnection::connect_with(options)).await {
        Ok(connected) => Ok(connected?),
        Err(_) => Err(StoreError::Unavailable(format!(
            "{} does not answer within {} s",
            address(options),
            time_limit.as_secs()
        ))),
    }
}

/// The host and port of a server, or the directory of its socket.
pub(crate) fn address(options: &PgConnectOptions) -> String {
    match options.get_socket() {
        Some(directory) => directory.display().to_string(),
        None => format!("{}:{}", options.get_host(), options.get_port()),
    }
}

/// One connection without the settings of a pool's sessions, to the server that takes writes.
///
/// # Errors
///
/// As [`connect`].
pub(crate) async fn connect_one(url: &str, application_name: &str) -> Result<PgConnection, StoreError> {
    let settings = PoolSettings {
        application_name: application_name.to_owned(),
        ..PoolSettings::default()
    };
    let options = plain_options(url, &settings)?;
    let (_, connection) = primary::find(&options, settings.acquire_timeout).await?;
    Ok(connection)
}

/// Whether a pooler refused the parameters of the connection. PgBouncer gives no code for that, only a message.
fn refuses_settings(error: &StoreError) -> bool {
    matches!(error, StoreError::Unavailable(why) if why.contains("startup parameter"))
}

/// A pool that connects when it is first used. With several hosts, called in a runtime.
///
/// # Errors
///
/// [`StoreError::Unavailable`] when the URL cannot be read.
pub fn connect_lazily(url: &str, settings: &PoolSettings) -> Result<Database, StoreError> {
    let options = with_settings(plain_options(url, settings)?, settings);
    Ok(lazy(pool(settings), options))
}

/// One connection for a [listener](crate::listener::listen), made when it is first used: notifications are hints, so a
/// program starts without them.
///
/// # Errors
///
/// As [`connect_lazily`].
pub fn connect_to_listen(url: &str, settings: &PoolSettings) -> Result<Database, StoreError> {
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(settings.acquire_timeout);
    Ok(lazy(pool, plain_options(url, settings)?))
}

fn lazy(pool: PgPoolOptions, options: Vec<PgConnectOptions>) -> Database {
    let (pool, options, servers) = parts(pool, options, 0);
    Database {
        pool: pool.connect_lazy_with(options),
        servers,
    }
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

fn with_settings(plain: Vec<PgConnectOptions>, settings: &PoolSettings) -> Vec<PgConnectOptions> {
    let statement_timeout = settings.statement_timeout.as_millis().to_string();
    let with_settings = |options: PgConnectOptions| {
        options
            .options(SETTINGS.map(|(name, value)| (name, value.replace(' ', "\\ "))))
            .options([("statement_timeout", &statement_timeout)])
    };
    plain.into_iter().map(with_settings).collect()
}

/// The options that a pooler accepts, for each server of the URL.
fn plain_options(url: &str, settings: &PoolSettings) -> Result<Vec<PgConnectOptions>, StoreError> {
    let plain = |options: PgConnectOptions| {
        options
            .application_name(&settings.application_name)
            .extra_float_digits(None)
            // The database logs slow statements; here they would flood the log after every stall.
            .disable_statement_logging()
    };
    Ok(url::servers(url)?.into_iter().map(plain).collect())
}
