//! `tidegate-fhevm serve`

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, ensure};
use axum::{Router, routing::get};
use clap::Args;
use tidegate::{
    database::PoolSettings,
    node::{self, ConnectionOptions, HttpOptions, Node, NodeOptions, on_signal},
    store::Store,
};
use tidegate_fhevm::{
    config::Keys,
    http::{Relayer, credential},
    request::Family,
};
use tokio::net::TcpListener;

use super::{GlobalArgs, figures::Figures};

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Where to listen; with port 0 any free port is taken, and the first line of output has the address
    #[arg(long, env = "TIDEGATE_FHEVM_LISTEN", default_value = "127.0.0.1:3000")]
    listen: SocketAddr,
    /// Listen beyond loopback without API keys: something in front of this node decides who may call
    #[arg(long)]
    behind_an_edge: bool,
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
    #[command(flatten)]
    options: HttpOptions,
    #[command(flatten)]
    of_connections: ConnectionOptions,
    #[command(flatten)]
    figures: Figures,
}

impl Serve {
    pub(crate) async fn run(self, global: GlobalArgs) -> anyhow::Result<()> {
        let stop = on_signal().context("cannot listen for signals")?;
        let config = global.config()?;
        let local = self.listen.ip().is_loopback();
        ensure!(
            local || config.keys == Keys::Required || self.behind_an_edge,
            "{} is beyond loopback, and `keys` is off: set it to \"required\", or pass --behind-an-edge",
            self.listen
        );
        let settings = PoolSettings {
            connections_max: self.connections.max(2),
            // A caller gets a Retry-After rather than wait long for a connection.
            acquire_timeout: Duration::from_secs(2),
            ..PoolSettings::default()
        };
        let (store, location) = global.open(&settings).await?;
        check_kinds(&store).await?;
        let listen_url = self.listen_database_url.as_ref().unwrap_or(&location.url);
        let options = NodeOptions::default()
            .listen_url(listen_url)
            .context("check --listen-database-url")?;

        let bound = TcpListener::bind(self.listen).await;
        let bound = bound.with_context(|| format!("cannot listen on {}", self.listen))?;
        // With port 0, this is how a parent process learns the port.
        println!("listening on http://{}", bound.local_addr()?);
        let keys = match config.keys {
            Keys::Off => node::Keys::Off,
            Keys::Required => node::Keys::Required,
        };
        let options = options
            .http(self.options)
            .connections(self.of_connections)
            .keys(keys)
            .credentials(credential);
        let node = Node::new(store.clone(), options);
        node.metrics().install();
        let router = Relayer::new(node.clone(), &store, &config).await.router(node.router());
        let rendering = node.clone();
        let render = move || async move { rendering.render_metrics().await };
        let figures = Router::new().route("/metrics", get(render));
        let serving = async { anyhow::Ok(node.serve(bound, router, stop.clone()).await?) };
        tokio::try_join!(serving, self.figures.serve(figures, &stop))?;
        drop(location);
        Ok(())
    }
}

/// Refuses a database without the kinds of the relayer.
async fn check_kinds(store: &Store) -> anyhow::Result<()> {
    for family in Family::ALL {
        let kind = family.kind();
        let found = store.kinds(Some(kind)).await?;
        ensure!(
            !found.is_empty(),
            "there is no kind \"{kind}\": run `tidegate-fhevm init` first"
        );
    }
    Ok(())
}
