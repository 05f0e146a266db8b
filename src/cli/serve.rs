//! `tidegate serve`

use std::{net::SocketAddr, process::ExitCode, time::Duration};

use anyhow::{Context, bail};
use clap::Args;
use tokio::net::TcpListener;

use super::DatabaseArgs;
use crate::{
    database::{self, PoolSettings},
    http::{self, HttpOptions},
    listener, maintenance, shutdown,
};

#[derive(Debug, Args)]
pub(super) struct Serve {
    /// Where to listen; anything but loopback lets everybody who can reach it submit and respond
    #[arg(long, env = "TIDEGATE_LISTEN", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// The largest request body, in bytes
    #[arg(long, default_value_t = HttpOptions::default().body_limit)]
    body_limit: usize,
    /// Database connections at most
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
    /// The longest that `Prefer: wait` holds an answer back, in seconds; 0: not at all
    #[arg(long, value_name = "SECONDS", default_value_t = HttpOptions::default().wait_max.as_secs())]
    wait_max: u64,
    /// Callers who wait at once, at most; the next ones are answered at once
    #[arg(long, value_name = "N", default_value_t = HttpOptions::default().waiters_max)]
    waiters_max: usize,
    /// Streams of events that are open at once, at most
    #[arg(long, value_name = "N", default_value_t = HttpOptions::default().streams_max)]
    streams_max: usize,
}

impl Serve {
    pub(super) async fn run(self, database: DatabaseArgs) -> anyhow::Result<ExitCode> {
        let stop = shutdown::on_signal()?;
        let connected = database.connect_to_serve(self.connections.max(2)).await?;
        let listen_url = self
            .listen_database_url
            .as_ref()
            .unwrap_or(&connected.location.url);
        let listened = database::connect_to_listen(listen_url, &PoolSettings::default())
            .context("check --listen-database-url")?;
        let listener = match TcpListener::bind(self.listen).await {
            Ok(listener) => listener,
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => bail!(
                "{} is in use by another program: stop that one, or pass another --listen",
                self.listen
            ),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot listen on {}", self.listen));
            }
        };
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() {
            tracing::warn!(%address, "listening beyond loopback, and nobody has to show a key: keep it behind a gateway");
        }
        // On stdout: with port 0, this is how a parent process learns the port.
        outln!("listening on http://{address}");

        let options = HttpOptions {
            body_limit: self.body_limit,
            wait_max: Duration::from_secs(self.wait_max),
            waiters_max: self.waiters_max,
            streams_max: self.streams_max,
            ..HttpOptions::default()
        };
        let maintained = tokio::spawn(maintenance::run(connected.store.clone(), stop.clone()));
        let node = http::Node::new(connected.store.clone(), &options);
        let listening = tokio::spawn(listener::listen(listened, node.hearers(), stop.clone()));
        http::serve(listener, node.router(&options), stop.clone()).await?;
        stop.cancel();
        listening.await?;
        maintained.await?;
        drop(connected.location);
        Ok(ExitCode::SUCCESS)
    }
}
