//! Accepting connections, and ending well.

use std::{io, time::Duration};

use axum::{Extension, Router, serve::Listener};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::waiting::Shutdown;

/// How long a connection may take to send a request's headers; also how long it may stay idle between requests.
const HEADERS_WITHIN: Duration = Duration::from_secs(60);

/// The largest head of a request, in bytes; a larger one gets 431.
const HEAD_MAX: usize = 64 * 1024;

/// How long the requests in flight may take to finish after `shutdown`.
const GRACE: Duration = Duration::from_secs(30);

/// Serves connections until `shutdown`; then takes no new ones and returns when the requests in flight are finished, or
/// half a minute later.
///
/// # Errors
///
/// None today: what fails, fails for one connection.
pub async fn serve(
    mut listener: TcpListener,
    router: Router,
    shutdown: CancellationToken,
) -> io::Result<()> {
    // Whoever waits is answered when the server is to end.
    let router = router.layer(Extension(Shutdown(shutdown.clone())));
    let mut connections = JoinSet::new();
    loop {
        // axum's accept sits out what passes, such as too many open files.
        let stream = tokio::select! {
            (stream, _) = Listener::accept(&mut listener) => stream,
            () = shutdown.cancelled() => break,
        };
        connections.spawn(connection(stream, router.clone(), shutdown.clone()));
        while connections.try_join_next().is_some() {}
    }
    drop(listener);

    let finished = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(GRACE, finished).await.is_err() {
        tracing::warn!(
            connections = connections.len(),
            "requests are cut off: they did not finish in time"
        );
        connections.shutdown().await;
    }
    Ok(())
}

/// One connection: HTTP/1.1, closed after the current request once `shutdown` is there.
async fn connection(stream: TcpStream, router: Router, shutdown: CancellationToken) {
    // Small answers must not wait for the acknowledgement of the last one.
    let _ = stream.set_nodelay(true);
    let service = TowerToHyperService::new(router);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS_WITHIN)
        .max_buf_size(HEAD_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);

    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke");
    }
}
