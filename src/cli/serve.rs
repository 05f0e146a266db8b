//! `tidegate serve`

use std::{net::SocketAddr, process::ExitCode};

use anyhow::{Context, bail};
use clap::Args;
use tokio::net::TcpListener;

use super::DatabaseArgs;
use crate::{
    http::{self, HttpOptions},
    maintenance, shutdown, webhook,
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
    /// Webhooks delivered at once by this node at most; 0: it leaves them to others
    #[arg(long, default_value_t = webhook::Options::default().concurrency)]
    webhooks: usize,
}

impl Serve {
    pub(super) async fn run(self, database: DatabaseArgs) -> anyhow::Result<ExitCode> {
        let stop = shutdown::on_signal()?;
        let connected = database.connect_to_serve(self.connections.max(2)).await?;
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
            ..HttpOptions::default()
        };
        let maintained = tokio::spawn(maintenance::run(connected.store.clone(), stop.clone()));
        let deliverer = webhook::Options {
            concurrency: self.webhooks,
            ..webhook::Options::default()
        };
        let delivered = (self.webhooks > 0).then(|| {
            tokio::spawn(webhook::run(
                connected.store.clone(),
                deliverer,
                stop.clone(),
            ))
        });
        let router = http::router(connected.store.clone(), &options);
        http::serve(listener, router, stop.clone()).await?;
        stop.cancel();
        maintained.await?;
        if let Some(delivered) = delivered {
            delivered.await?;
        }
        drop(connected.location);
        Ok(ExitCode::SUCCESS)
    }
}
