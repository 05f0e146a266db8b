//! `tidegate-worker downstream`: the simulated downstream as a server.

use std::sync::Arc;

use anyhow::Context;
use tidegate_cli::logs::print_out;
use tidegate_workers::{
    downstream_server,
    http_stage::header_map,
    simulate::{CallbackResponder, Downstream, Responder, SimulateOptions},
};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::{cli::ServerFlags, finish};

pub(crate) async fn run(
    server: ServerFlags,
    simulate: SimulateOptions,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let responder = match server.callback_url {
        Some(url) => {
            let headers = header_map(&server.callback_headers).context("--callback-header")?;
            let responder = CallbackResponder::new(url, headers);
            let responder = responder.context("cannot make an HTTP client for --callback-url")?;
            Some(Arc::new(responder) as Arc<dyn Responder>)
        }
        None => {
            tracing::warn!("without --callback-url only requests of direct kinds are answered");
            None
        }
    };
    // Its callers wait for the network in any case, so the server always keeps its memory.
    let simulate = SimulateOptions {
        remember: true,
        check_concurrency: server.concurrency.or(simulate.check_concurrency),
        ..simulate
    };
    let downstream = Arc::new(Downstream::new(simulate, responder)?);

    let listener = TcpListener::bind(server.listen)
        .await
        .with_context(|| format!("cannot listen on {}: choose another --listen", server.listen))?;
    let address = listener.local_addr().context("cannot read the address")?;
    tracing::info!(%address, "the simulated downstream listens");
    if server.listen.port() == 0 {
        print_out(format_args!("listening on http://{address}"));
    }
    downstream_server::serve(listener, downstream.clone(), server.answer, shutdown)
        .await
        .context("the server broke")?;
    finish(&downstream, server.grace).await;
    Ok(())
}
