//! The options of a program that serves a node.

use std::{
    io::{self, ErrorKind},
    net::SocketAddr,
    time::Duration,
};

use anyhow::{Context, anyhow};
use clap::Args;
use tidegate::internals::database::PoolSettings;
use tokio::net::{TcpListener, TcpSocket};

use crate::{ConnectionOptions, HttpOptions, NodeOptions, file_limit, webhook};

/// Connections to the database, connections of callers, and the limits of both.
#[derive(Debug, Args)]
pub struct NodeArgs {
    /// The most database connections, besides two for operators, API keys and gates, two for pages, one for
    /// maintenance and one that listens
    #[arg(long, default_value_t = 10)]
    connections: u32,
    /// Where to LISTEN, when the database is reached through a pooler in transaction mode: a direct connection, or a
    /// pooler in session mode [default: the database]
    #[arg(long, value_name = "URL", env = "TIDEGATE_LISTEN_DATABASE_URL", hide_env_values = true)]
    listen_database_url: Option<String>,
    /// The most webhooks that this node delivers at once; 0: none
    #[arg(long, default_value_t = webhook::Options::default().concurrency)]
    webhooks: usize,
    #[command(flatten)]
    http: HttpOptions,
    #[command(flatten)]
    of_connections: ConnectionOptions,
}

impl NodeArgs {
    /// The connections of the node's store.
    #[must_use]
    pub fn pool_settings(&self) -> PoolSettings {
        PoolSettings {
            connections_max: self.connections.max(2),
            // A caller gets a Retry-After rather than wait long for a connection.
            acquire_timeout: Duration::from_secs(2),
            ..PoolSettings::default()
        }
    }

    /// The options of a node on the database at this URL.
    ///
    /// # Errors
    ///
    /// When the URL to listen at is none.
    pub fn options(&self, database_url: &str) -> anyhow::Result<NodeOptions> {
        let listen_url = self.listen_database_url.as_deref().unwrap_or(database_url);
        let options = NodeOptions::default().listen_url(listen_url).context("check --listen-database-url")?;
        let options = options.http(self.http.clone()).connections(self.of_connections.clone());
        Ok(options.webhooks(self.webhooks))
    }

    /// A listener for as many callers as the options allow.
    ///
    /// # Errors
    ///
    /// When the address cannot be listened on.
    pub async fn listen(&self, address: SocketAddr) -> anyhow::Result<TcpListener> {
        raise_file_limit(self.of_connections.connection_limit);
        listen(address).map_err(|error| match error.kind() {
            ErrorKind::AddrInUse => {
                anyhow!("{address} is in use by another program: stop it, or pass another --listen")
            }
            _ => anyhow!(error).context(format!("cannot listen on {address}")),
        })
    }
}

/// How many connections may wait to be accepted, in a burst of callers: the system resets those beyond. Its own limit
/// (`net.core.somaxconn`) is 4096 by default.
const BACKLOG: u32 = 16_384;

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // A restarted program takes the address although connections of its predecessor are still being closed.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Raises the limit of open files for this many connections and some files.
fn raise_file_limit(connections: usize) {
    let wanted = u64::try_from(connections).unwrap_or(u64::MAX).saturating_add(256);
    match file_limit::raise(wanted) {
        Ok(limit) if limit >= wanted => {}
        Ok(limit) => tracing::info!(
            limit,
            connections,
            "the system allows fewer open files than --connection-limit needs: callers beyond it will have to wait"
        ),
        Err(error) => tracing::warn!(%error, "cannot raise the limit of open files"),
    }
}
