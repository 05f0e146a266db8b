//! The figures of this process, on a port of their own.

use std::net::SocketAddr;

use anyhow::Context;
use axum::{Json, Router, routing::get};
use clap::Args;
use serde_json::json;
use tidegate_cli::logs::print_out;
use tidegate_node::internals::serve;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

#[derive(Debug, Args)]
pub(super) struct Figures {
    /// Serve /metrics and /health on this address, such as 127.0.0.1:9898, to every host that can connect
    #[arg(long, value_name = "ADDRESS", env = "TIDEGATE_FHEVM_METRICS_LISTEN")]
    metrics_listen: Option<SocketAddr>,
}

impl Figures {
    /// Serves `router`, which has `/metrics`, until `stop`; returns at once when no address is given.
    pub(super) async fn serve(&self, router: Router, stop: &CancellationToken) -> anyhow::Result<()> {
        let Some(address) = self.metrics_listen else {
            return Ok(());
        };
        let listener = TcpListener::bind(address).await;
        let listener = listener.with_context(|| format!("cannot serve metrics on {address}"))?;
        print_out(format_args!("metrics on http://{}/metrics", listener.local_addr()?));
        let healthy = || async { Json(json!({"status": "healthy"})) };
        let router = router.route("/health", get(healthy));
        Ok(serve(listener, router, stop.clone()).await?)
    }
}
