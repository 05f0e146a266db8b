//! `tidegate-fhevm serve`

use std::net::SocketAddr;

use anyhow::{Context, ensure};
use axum::{Router, routing::get};
use clap::Args;
use tidegate_cli::logs::print_out;
use tidegate_fhevm::{
    config::Keys,
    http::{Relayer, credential},
};
use tidegate_node::{self as node, Node, internals::NodeArgs, on_signal};

use super::{GlobalArgs, figures::Figures};

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Where to listen; with port 0 any free port is taken, and the first line of output has the address
    #[arg(long, env = "TIDEGATE_FHEVM_LISTEN", default_value = "127.0.0.1:3000")]
    listen: SocketAddr,
    /// Listen beyond loopback without API keys: something in front of this node decides who may call
    #[arg(long)]
    behind_an_edge: bool,
    #[command(flatten)]
    node: NodeArgs,
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
        let (store, location) = global.open(&self.node.pool_settings()).await?;
        let options = self.node.options(&location.url)?;
        let keys = match config.keys {
            Keys::Off => node::Keys::Off,
            Keys::Required => node::Keys::Required,
        };
        let node = Node::of_store(store.clone(), options.keys(keys).credentials(credential));
        node.exporter().install();
        let router = Relayer::new(node.clone(), &store, &config).await.router(node.router());
        let rendering = node.clone();
        let render = move || async move { rendering.render_metrics().await };
        let figures = Router::new().route("/metrics", get(render));
        // A client that can connect is served at once.
        let listener = self.node.listen(self.listen).await?;
        // With port 0, this is how a parent process learns the port.
        print_out(format_args!("listening on http://{}", listener.local_addr()?));
        let serving = async { anyhow::Ok(node.serve(listener, router, stop.clone()).await?) };
        tokio::try_join!(serving, self.figures.serve(figures, &stop))?;
        drop(location);
        Ok(())
    }
}
