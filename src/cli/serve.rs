//! `tidegate serve`

use std::{
    io::ErrorKind,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, anyhow};
use clap::Args;
use tokio::net::TcpListener;

use super::{GlobalArgs, recover};
use crate::{
    database::PoolSettings,
    file_limit,
    node::{ConnectionOptions, HttpOptions, Keys, Node, NodeOptions},
    shutdown,
    store::Store,
    webhook,
};

#[derive(Debug, Args)]
pub(super) struct Serve {
    /// Where to listen. Without any API key (`tidegate key create`) only loopback is listened on
    #[arg(long, env = "TIDEGATE_LISTEN", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// The most database connections, besides two for operators, API keys and gates and one that listens
    #[arg(long, default_value_t = 10)]
    connections: u32,
    /// Where to LISTEN, when the database is reached through a pooler in transaction mode: a direct connection, or a
    /// pooler in session mode [default: the database]
    #[arg(
        long,
        value_name = "URL",
        env = "TIDEGATE_LISTEN_DATABASE_URL",
        hide_env_values = true
    )]
    listen_database_url: Option<String>,
    /// The most webhooks that this node delivers at once; 0: none
    #[arg(long, default_value_t = webhook::Options::default().concurrency)]
    webhooks: usize,
    /// Run `tidegate recover` first, and serve when it has ended; any number of nodes may do so at once
    #[arg(long)]
    recover: bool,
    #[command(flatten)]
    options: HttpOptions,
    #[command(flatten)]
    of_connections: ConnectionOptions,
}

impl Serve {
    pub(super) async fn run(self, global: GlobalArgs) -> anyhow::Result<ExitCode> {
        let stop = shutdown::on_signal()?;
        let settings = PoolSettings {
            connections_max: self.connections.max(2),
            // A caller gets a Retry-After rather than wait long for a connection.
            acquire_timeout: Duration::from_secs(2),
            ..PoolSettings::default()
        };
        let mut recovery = global.clone();
        let connected = global.open(&settings).await?;
        let listen_url = self.listen_database_url.as_ref().unwrap_or(&connected.location.url);
        let options = NodeOptions::default()
            .listen_url(listen_url)
            .context("check --listen-database-url")?;
        raise_file_limit(self.of_connections.connection_limit);
        if self.recover {
            // With the time limits of a command: a node's statements are shorter.
            recovery.database.database_url = Some(connected.location.url.clone());
            tokio::select! {
                recovered = recover::at_start(recovery) => {
                    recovered.context("the recovery before serving has failed, so this node does not serve")?;
                }
                () = stop.cancelled() => return Ok(ExitCode::SUCCESS),
            }
        }
        let listen = within_reach(self.listen, &connected.store).await?;
        let listener = TcpListener::bind(listen).await.map_err(|error| match error.kind() {
            ErrorKind::AddrInUse => anyhow!("{listen} is in use by another program: stop it, or pass another --listen"),
            _ => anyhow!(error).context(format!("cannot listen on {listen}")),
        })?;
        let address = listener.local_addr()?;
        // On stdout: with port 0, this is how a parent process learns the port.
        outln!("listening on http://{address}");

        // It listens beyond loopback only if there is a key, and then never serves without one.
        let keys = match address.ip().is_loopback() {
            true => Keys::OnceCreated,
            false => Keys::Required,
        };
        let options = options.http(self.options).connections(self.of_connections);
        let node = Node::new(connected.store.clone(), options.webhooks(self.webhooks).keys(keys));
        node.serve(listener, node.router(), stop).await?;
        drop(connected.location);
        Ok(ExitCode::SUCCESS)
    }
}

/// Raises the limit of open files for this many connections and some files.
fn raise_file_limit(connections: usize) {
    let wanted = u64::try_from(connections).unwrap_or(u64::MAX).saturating_add(256);
    match file_limit::raise(wanted) {
        Ok(limit) if limit >= wanted => {}
        Ok(limit) => tracing::warn!(
            limit,
            connections,
            "the system allows fewer open files than --connection-limit needs: callers beyond it will have to wait"
        ),
        Err(error) => tracing::warn!(%error, "cannot raise the limit of open files"),
    }
}

/// The requested address; loopback as long as there is no API key.
async fn within_reach(requested: SocketAddr, store: &Store) -> anyhow::Result<SocketAddr> {
    if !store.key_changes(0, 1).await?.is_empty() {
        return Ok(requested);
    }
    if requested.ip().is_loopback() {
        tracing::warn!("no API key yet: every caller that reaches this port may do everything (`tidegate key create`)");
        return Ok(requested);
    }
    let address = loopback(requested);
    tracing::warn!(
        %requested, listening = %address,
        "there is no API key, so this listens on loopback only: make one with `tidegate key create`, and start again"
    );
    Ok(address)
}

/// The same port of loopback.
fn loopback(address: SocketAddr) -> SocketAddr {
    let ip: IpAddr = if address.is_ipv4() {
        Ipv4Addr::LOCALHOST.into()
    } else {
        Ipv6Addr::LOCALHOST.into()
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_keeps_the_port_and_the_family() {
        for (requested, listened) in [
            ("0.0.0.0:8080", "127.0.0.1:8080"),
            ("192.0.2.1:0", "127.0.0.1:0"),
            ("[::]:8080", "[::1]:8080"),
            ("[::ffff:192.0.2.1]:1", "[::1]:1"),
        ] {
            assert_eq!(loopback(requested.parse().unwrap()), listened.parse().unwrap());
        }
    }
}
