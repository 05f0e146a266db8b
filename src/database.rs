//! The connection settings, and pools of connections.

mod url;

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use sqlx::{
    ConnectOptions, Connection, Executor, PgConnection, PgPool, Row,
    postgres::{PgConnectOptions, PgPoolOptions},
};

pub use self::url::with_database;
use crate::{error::StoreError, lock::lock};

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

/// The pause between two checks of the primary, and between two searches for it.
const PAUSE: Duration = Duration::from_millis(500);

/// How long a server may take to answer a check.
const ANSWER: Duration = Duration::from_secs(2);

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
/// Of several hosts it takes the one that takes writes, and follows when that becomes another, until the pool is closed.
/// When a pooler refuses the settings of a session, a warning lists the settings for the database's user.
///
/// # Errors
///
/// [`StoreError::Unavailable`] when it does not, or when the URL cannot be read.
pub async fn connect(url: &str, settings: &PoolSettings) -> Result<PgPool, StoreError> {
    let mut servers = options(url, settings)?;
    // The pool's error has no reason: one connection outside of it finds the reason.
    let primary = match probe(&servers, settings).await {
        Err(error) if refuses_settings(&error) => {
            servers = plain_options(url, settings)?;
            let primary = probe(&servers, settings).await?;
            tracing::warn!(
                host = servers[primary].get_host(),
                "a pooler takes no settings with a connection: set them for the database's user, {}",
                SETTINGS.map(|(name, value)| format!("{name} = '{value}'")).join(", "),
            );
            primary
        }
        tried => tried?,
    };
    let pool = lead(pool(settings), servers, primary);
    drop(pool.acquire().await?);
    Ok(pool)
}

/// A pool that pings a connection before a use only when it has been idle: a ping before each use would cost every
/// statement a round trip.
fn pool(settings: &PoolSettings) -> PgPoolOptions {
    PgPoolOptions::new()
        .max_connections(settings.connections_max)
        .acquire_timeout(settings.acquire_timeout)
        .test_before_acquire(false)
}

/// A pool that leads to the server of this number first, and then to that which takes writes, if there are several.
fn lead(pool: PgPoolOptions, servers: Vec<PgConnectOptions>, first: usize) -> PgPool {
    let moved = Arc::new(Mutex::new(Instant::now()));
    let last_move = Arc::clone(&moved);
    let pool = pool.before_acquire(move |connection, used| {
        let opened = Instant::now().checked_sub(used.age);
        let leads_elsewhere = opened < Some(*lock(&last_move));
        Box::pin(async move { Ok(!leads_elsewhere && (used.idle_for < IDLE || connection.ping().await.is_ok())) })
    });
    let pool = pool.connect_lazy_with(servers[first].clone());
    if servers.len() > 1 {
        let (mut closed, following) = (pool.close_event(), follow(pool.clone(), servers, moved));
        tokio::spawn(async move { closed.do_until(following).await });
    }
    pool
}

/// Leads a pool to the server that takes writes. `moved` is when it last was another one than before: earlier
/// connections are not used any more.
async fn follow(pool: PgPool, servers: Vec<PgConnectOptions>, moved: Arc<Mutex<Instant>>) {
    let mut former: Option<String> = None;
    loop {
        if let Ok((primary, mut connection)) = find(&servers, ANSWER).await {
            if redirect(&pool, &servers[primary]) {
                *lock(&moved) = Instant::now();
            }
            let primary = address(&servers[primary]);
            if let Some(former) = former.replace(primary.clone()).filter(|former| *former != primary) {
                tracing::warn!(primary, former, "another server has become the primary; connections go there");
            }
            while let Ok(Ok(true)) = tokio::time::timeout(ANSWER, takes_writes(&mut connection)).await {
                tokio::time::sleep(PAUSE).await;
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Makes new connections of a pool lead to this server; returns whether they led to another one.
pub(crate) fn redirect(pool: &PgPool, server: &PgConnectOptions) -> bool {
    let moves = address(&pool.connect_options()) != address(server);
    if moves {
        pool.set_connect_options(server.clone());
    }
    moves
}

/// Another pool to the same server, connected when it is first used; with a name of its own, if one is given.
pub fn own_pool(pool: &PgPool, connections: u32, application_name: Option<&str>) -> PgPool {
    let options = PgConnectOptions::clone(&pool.connect_options());
    let options = match application_name {
        Some(name) => options.application_name(name),
        None => options,
    };
    let settings = pool.options().clone().min_connections(0).max_connections(connections);
    settings.connect_lazy_with(options)
}

/// The host and port of a server, or the directory of its socket.
pub(crate) fn address(options: &PgConnectOptions) -> String {
    match options.get_socket() {
        Some(directory) => directory.display().to_string(),
        None => format!("{}:{}", options.get_host(), options.get_port()),
    }
}

/// Opens a connection and closes it; returns the number of its server.
async fn probe(servers: &[PgConnectOptions], settings: &PoolSettings) -> Result<usize, StoreError> {
    let (primary, connection) = find(servers, settings.acquire_timeout).await?;
    connection.close().await?;
    Ok(primary)
}

/// A connection to the first server that takes writes, and its number. A single server is not asked whether it does.
async fn find(servers: &[PgConnectOptions], time_limit: Duration) -> Result<(usize, PgConnection), StoreError> {
    if let [server] = servers {
        return Ok((0, open(server, time_limit).await?));
    }
    let mut reasons = Vec::new();
    for (number, server) in servers.iter().enumerate() {
        let opening = async {
            let mut connection = open(server, time_limit).await?;
            Ok(takes_writes(&mut connection).await?.then_some(connection))
        };
        let why = match tokio::time::timeout(time_limit, opening).await {
            Ok(Ok(Some(connection))) => return Ok((number, connection)),
            Ok(Ok(None)) => "it is a standby, or read-only".to_owned(),
            Ok(Err(StoreError::Unavailable(why))) => why,
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it does not answer".to_owned(),
        };
        reasons.push(format!("{}: {why}", address(server)));
    }
    let reasons = reasons.join("; ");
    Err(StoreError::Unavailable(format!("no server of the URL takes writes ({reasons})")))
}

/// Whether the server takes writes. Without a prepared statement, which a pooler may lose.
async fn takes_writes(connection: &mut PgConnection) -> sqlx::Result<bool> {
    let row = connection.fetch_one("show transaction_read_only").await?;
    Ok(row.try_get::<&str, _>(0)? == "off")
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

/// One connection without the settings of a pool's sessions, to the server that takes writes.
///
/// # Errors
///
/// As [`connect`].
pub(crate) async fn connect_one(url: &str, application_name: &str) -> Result<PgConnection, StoreError> {
    let settings = PoolSettings { application_name: application_name.to_owned(), ..PoolSettings::default() };
    let servers = plain_options(url, &settings)?;
    Ok(find(&servers, settings.acquire_timeout).await?.1)
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
pub fn connect_lazily(url: &str, settings: &PoolSettings) -> Result<PgPool, StoreError> {
    Ok(lead(pool(settings), options(url, settings)?, 0))
}

/// One connection for a [listener](crate::listener::listen), made when it is first used: notifications are hints, so a
/// program starts without them.
///
/// # Errors
///
/// As [`connect_lazily`].
pub fn connect_to_listen(url: &str, settings: &PoolSettings) -> Result<PgPool, StoreError> {
    let pool = pool(settings).after_connect(|connection, _| {
        let set = WATCHES_CLIENT.map(|(name, value)| format!("set {name} = '{value}'"));
        Box::pin(async move { connection.execute(&*set.join(";")).await.map(drop) })
    });
    Ok(lead(pool, plain_options(url, settings)?, 0))
}

/// How the server notices that a client is gone, or frozen: a session that cannot send to its client keeps its snapshot,
/// and no vacuum of the whole database removes what was deleted since.
const WATCHES_CLIENT: [(&str, &str); 4] = [
    ("tcp_user_timeout", "20s"),
    ("tcp_keepalives_idle", "15s"),
    ("tcp_keepalives_interval", "5s"),
    ("tcp_keepalives_count", "3"),
];

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

fn options(url: &str, settings: &PoolSettings) -> Result<Vec<PgConnectOptions>, StoreError> {
    let statement_timeout = settings.statement_timeout.as_millis().to_string();
    let with_settings = |options: PgConnectOptions| {
        options
            .options(SETTINGS.map(|(name, value)| (name, value.replace(' ', "\\ "))))
            .options(WATCHES_CLIENT)
            .options([("statement_timeout", &statement_timeout)])
    };
    Ok(plain_options(url, settings)?.into_iter().map(with_settings).collect())
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
