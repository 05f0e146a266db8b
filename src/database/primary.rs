//! Which of several servers takes writes.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream::FuturesUnordered};
use sqlx::{Connection, Executor, PgConnection, PgPool, Row, postgres::PgConnectOptions};
use tokio::sync::watch;

use super::{address, open};
use crate::error::StoreError;

/// The pause between two checks of the primary, and between two searches for it.
const PAUSE: Duration = Duration::from_millis(500);

/// How long a check, or a connection in a search, may take.
const ANSWER: Duration = Duration::from_secs(2);

/// The server that takes writes.
#[derive(Debug, Clone, Copy)]
struct Primary {
    /// Its number in the list.
    server: usize,
    /// Connections from before lead to another server.
    since: Instant,
}

/// The servers of a URL with several hosts, as one pool connects to them, and which of them is the primary.
#[derive(Debug, Clone)]
pub(super) struct Servers {
    options: Vec<PgConnectOptions>,
    primary: watch::Receiver<Primary>,
}

impl Servers {
    /// Follows the primary from now on, in a task that ends with the last clone. `first` is taken for the primary until
    /// another server is.
    pub(super) fn follow(options: Vec<PgConnectOptions>, first: usize) -> Self {
        let (sender, primary) = watch::channel(Primary {
            server: first,
            since: Instant::now(),
        });
        tokio::spawn(follow(options.clone(), sender));
        Self { options, primary }
    }

    /// The same servers for another pool, which connects by this name.
    pub(super) fn named(&self, application_name: &str) -> Self {
        let options = self.options.iter();
        Self {
            options: options
                .map(|options| options.clone().application_name(application_name))
                .collect(),
            primary: self.primary.clone(),
        }
    }

    /// How to connect to the primary.
    pub(super) fn options(&self) -> &PgConnectOptions {
        &self.options[self.primary.borrow().server]
    }

    /// Whether another server has become the primary since.
    pub(super) fn have_moved(&self, since: Instant) -> bool {
        self.primary.borrow().since > since
    }

    /// Waits until another server has become the primary since.
    pub(super) async fn moved(&self, since: Instant) {
        let mut primary = self.primary.clone();
        // Never, once no task follows it any more.
        if primary.wait_for(|primary| primary.since > since).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Makes new connections of the pool lead to the primary.
    pub(super) fn lead(&self, pool: &PgPool) {
        let options = self.options();
        if address(&pool.connect_options()) != address(options) {
            pool.set_connect_options(options.clone());
        }
    }
}

/// Checks the primary, and searches for it while there is none, as long as a receiver needs it.
async fn follow(servers: Vec<PgConnectOptions>, primary: watch::Sender<Primary>) {
    let following = async {
        loop {
            if let Ok((server, mut connection)) = find(&servers, ANSWER).await {
                primary.send_if_modified(|primary| change(primary, server, &servers));
                while matches!(
                    tokio::time::timeout(ANSWER, takes_writes(&mut connection)).await,
                    Ok(Ok(true))
                ) {
                    tokio::time::sleep(PAUSE).await;
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::select! {
        () = primary.closed() => {}
        () = following => {}
    }
}

/// Stores the primary that was found; returns whether it is another one.
fn change(primary: &mut Primary, server: usize, servers: &[PgConnectOptions]) -> bool {
    if primary.server == server {
        return false;
    }
    tracing::warn!(
        primary = address(&servers[server]),
        former = address(&servers[primary.server]),
        "another server has become the primary; connections go there"
    );
    *primary = Primary {
        server,
        since: Instant::now(),
    };
    true
}

/// The number of the server that takes writes, with a connection to it; the first one that answers. A single server is
/// not asked whether it does.
pub(super) async fn find(
    servers: &[PgConnectOptions],
    time_limit: Duration,
) -> Result<(usize, PgConnection), StoreError> {
    if let [server] = servers {
        return Ok((0, open(server, time_limit).await?));
    }
    let mut tried: FuturesUnordered<_> = (0..servers.len())
        .map(|server| async move { (server, open_primary(&servers[server], time_limit).await) })
        .collect();
    let mut reasons = Vec::new();
    while let Some((server, opened)) = tried.next().await {
        match opened {
            Ok(connection) => return Ok((server, connection)),
            Err(StoreError::Unavailable(why)) => reasons.push((server, why)),
            Err(error) => reasons.push((server, error.to_string())),
        }
    }
    reasons.sort_unstable();
    let reasons: Vec<_> = reasons
        .into_iter()
        .map(|(server, why)| format!("{}: {why}", address(&servers[server])))
        .collect();
    Err(StoreError::Unavailable(format!(
        "no server of the URL takes writes ({})",
        reasons.join("; ")
    )))
}

async fn open_primary(server: &PgConnectOptions, time_limit: Duration) -> Result<PgConnection, StoreError> {
    let began = Instant::now();
    let mut connection = open(server, time_limit).await?;
    let left = time_limit.saturating_sub(began.elapsed());
    match tokio::time::timeout(left, takes_writes(&mut connection)).await {
        Ok(Ok(true)) => Ok(connection),
        Ok(Ok(false)) => {
            let _ = connection.close().await;
            Err(StoreError::Unavailable("it is a standby, or read-only".to_owned()))
        }
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(StoreError::Unavailable("it does not answer".to_owned())),
    }
}

/// Whether the server takes writes. Without a prepared statement, which a pooler may lose.
async fn takes_writes(connection: &mut PgConnection) -> sqlx::Result<bool> {
    let row = connection.fetch_one("show transaction_read_only").await?;
    Ok(row.try_get::<String, _>(0)? == "off")
}

/// Refuses a new connection of a pool to a server that takes no writes, such as a primary that came back as a standby:
/// its answers would be old.
pub(super) async fn check(connection: &mut PgConnection) -> sqlx::Result<()> {
    if takes_writes(connection).await? {
        Ok(())
    } else {
        Err(sqlx::Error::Protocol("the server takes no writes".to_owned()))
    }
}
