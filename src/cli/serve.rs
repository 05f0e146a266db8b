//! `tidegate serve`

use std::{
    io::ErrorKind,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    pin::pin,
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, anyhow};
use clap::Args;
use humantime::parse_duration;
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{GlobalArgs, recover};
use crate::{
    database::{self, PoolSettings},
    file_limit,
    http::{self, ConnectionOptions, HttpOptions},
    listener, maintenance, shutdown,
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
    limits: Limits,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Limits")]
struct Limits {
    /// The largest request body, in bytes; a larger one gets 413
    #[arg(long, default_value_t = HttpOptions::default().body_limit)]
    body_limit: usize,
    /// The largest head of a request, its headers included, in bytes, at least 8192; a much larger one gets 431
    #[arg(long, default_value_t = ConnectionOptions::default().head_limit)]
    head_limit: usize,
    /// Calls of `/v1` under way at once; one more gets 503
    #[arg(long, default_value_t = HttpOptions::default().concurrency_limit)]
    concurrency_limit: usize,
    /// Connections of callers at once; one more gets 503
    #[arg(long, default_value_t = ConnectionOptions::default().connection_limit)]
    connection_limit: usize,
    /// How long a call may take, its body included; a slower one gets 503
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    request_timeout: Duration,
    /// How long a connection may take for a request's head, or stay idle between requests
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration)]
    idle_timeout: Duration,
    /// How long a client may stop reading its answer
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    write_timeout: Duration,
    /// How long calls under way may take to finish after SIGTERM
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    grace: Duration,
    /// The longest that `Prefer: wait` holds an answer back, in seconds; 0: not at all
    #[arg(long, value_name = "SECONDS", default_value_t = HttpOptions::default().wait_max.as_secs(),
        value_parser = clap::value_parser!(u64).range(..=86_400))]
    wait_max: u64,
    /// The most callers that wait at once; the next ones are answered at once
    #[arg(long, value_name = "N", default_value_t = HttpOptions::default().waiters_max)]
    waiters_max: usize,
    /// The most streams of events that are open at once
    #[arg(long, value_name = "N", default_value_t = HttpOptions::default().streams_max)]
    streams_max: usize,
    /// How long a stream of events stays open; its reader connects again, with its key
    #[arg(long, value_name = "DURATION", default_value = "15m", value_parser = parse_duration)]
    stream_time: Duration,
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
        let connected = global.open(&settings).await?;
        let listen_url = self.listen_database_url.as_ref().unwrap_or(&connected.location.url);
        let listener_settings = PoolSettings {
            // The database counts nodes by this name.
            application_name: http::LISTENER_NAME.to_owned(),
            ..PoolSettings::default()
        };
        let listened =
            database::connect_to_listen(listen_url, &listener_settings).context("check --listen-database-url")?;
        raise_file_limit(self.limits.connection_limit);
        if self.recover {
            // With the time limits of a command: a node's statements are shorter.
            let global = GlobalArgs {
                database_url: Some(connected.location.url.clone()),
                json: false,
            };
            tokio::select! {
                recovered = recover::at_start(global) => {
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

        let limits = self.limits;
        let options = HttpOptions {
            body_limit: limits.body_limit,
            request_timeout: limits.request_timeout,
            concurrency_limit: limits.concurrency_limit,
            wait_max: Duration::from_secs(limits.wait_max),
            waiters_max: limits.waiters_max,
            streams_max: limits.streams_max,
            stream_time: limits.stream_time,
            // It listens beyond loopback only if there is a key, and then never serves without one.
            keys_required: !address.ip().is_loopback(),
        };
        let connections = ConnectionOptions {
            connection_limit: limits.connection_limit,
            head_limit: limits.head_limit,
            idle_timeout: limits.idle_timeout,
            write_timeout: limits.write_timeout,
            grace: limits.grace,
        };
        let store = &connected.store;
        let node = http::Node::new(store.clone(), &options);
        let mut parts = JoinSet::new();
        parts.spawn(part("maintenance", maintenance::run(store.clone(), stop.clone())));
        parts.spawn(part(
            "the listener",
            listener::listen(listened, store.clone(), node.subscribers(), stop.clone()),
        ));
        if self.webhooks > 0 {
            let options = webhook::Options {
                concurrency: self.webhooks,
                ..webhook::Options::default()
            };
            let delivering = webhook::run(store.clone(), options, stop.clone());
            parts.spawn(part("the delivery of webhooks", delivering));
        }
        let served = http::serve_within(listener, node.router(&options), &connections, stop.clone());
        together(served, parts, &stop).await?;
        drop(connected.location);
        Ok(ExitCode::SUCCESS)
    }
}

/// Runs a part of the process, and returns its name.
async fn part(name: &'static str, running: impl Future<Output = ()>) -> &'static str {
    running.await;
    name
}

/// Serves until `stop`, and then until all parts have ended. When one of them ends before, the process stops: without
/// it, the node would report that it is healthy and not be.
async fn together(
    served: impl Future<Output = std::io::Result<()>>,
    mut parts: JoinSet<&'static str>,
    stop: &CancellationToken,
) -> anyhow::Result<()> {
    let mut served = pin!(served);
    let mut ended_early = None;
    let outcome = tokio::select! {
        outcome = &mut served => outcome,
        Some(ended) = parts.join_next() => {
            if !stop.is_cancelled() {
                ended_early = Some(match ended {
                    Ok(name) => anyhow!("{name} has ended by itself, so this node stops: start it again"),
                    Err(error) => anyhow!("a part of this node broke down, so it stops: {error}"),
                });
            }
            stop.cancel();
            served.await
        }
    };
    stop.cancel();
    while let Some(ended) = parts.join_next().await {
        if let Err(error) = ended {
            ended_early.get_or_insert_with(|| anyhow!("a part of this node broke down: {error}"));
        }
    }
    match ended_early {
        Some(error) => Err(error),
        None => Ok(outcome?),
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

    /// Serves until `stop`.
    async fn serving(stop: CancellationToken) -> std::io::Result<()> {
        stop.cancelled().await;
        Ok(())
    }

    #[tokio::test]
    async fn a_part_that_ends_or_breaks_down_ends_the_process_with_an_error() {
        for (breaks_down, words) in [(false, "maintenance has ended"), (true, "broke down")] {
            let stop = CancellationToken::new();
            let mut parts = JoinSet::new();
            parts.spawn(part("the other", stop.clone().cancelled_owned()));
            parts.spawn(part("maintenance", async move {
                assert!(!breaks_down, "on purpose");
            }));

            let error = together(serving(stop.clone()), parts, &stop).await.unwrap_err();

            assert!(error.to_string().contains(words), "{error}");
        }
    }

    #[tokio::test]
    async fn parts_that_end_after_the_stop_are_no_error() {
        let stop = CancellationToken::new();
        let mut parts = JoinSet::new();
        parts.spawn(part("maintenance", stop.clone().cancelled_owned()));
        stop.cancel();

        together(serving(stop.clone()), parts, &stop).await.unwrap();
    }

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
