//! Accepting connections, and ending well.

mod patient;
mod refuse;

use std::{io, sync::Arc, time::Duration};

use axum::{Extension, Router, serve::Listener};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use self::patient::Patient;
use super::waiting::Shutdown;

/// What a connection is held to.
#[derive(Debug, Clone)]
pub struct ConnectionOptions {
    /// Connections at once; one more is told 503 and closed.
    pub connection_limit: usize,
    /// The largest head of a request, in bytes, at least 8 KiB; a much larger one gets 431.
    pub head_limit: usize,
    /// How long a connection may take to send a request's head; also how long it may stay idle between requests.
    pub idle_timeout: Duration,
    /// How long a client may take none of what is sent to it.
    pub write_timeout: Duration,
    /// How long the requests in flight may take to finish after `shutdown`.
    pub grace: Duration,
}

impl Default for ConnectionOptions {
    fn default() -> Self {
        Self {
            connection_limit: 32_768,
            head_limit: 64 * 1024,
            idle_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(30),
            grace: Duration::from_secs(30),
        }
    }
}

/// The smallest head limit that the HTTP library works with.
const HEAD_MIN: usize = 8 * 1024;

/// As [`serve_within`], within the default limits.
///
/// # Errors
///
/// None today: what fails, fails for one connection.
pub async fn serve(listener: TcpListener, router: Router, shutdown: CancellationToken) -> io::Result<()> {
    serve_within(listener, router, &ConnectionOptions::default(), shutdown).await
}

/// Serves connections until `shutdown`; then takes no new ones and returns when the requests in flight are finished, or
/// after `grace`.
///
/// # Errors
///
/// None today: what fails, fails for one connection.
pub async fn serve_within(
    mut listener: TcpListener,
    router: Router,
    options: &ConnectionOptions,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let places = Arc::new(Semaphore::new(options.connection_limit.min(Semaphore::MAX_PERMITS)));
    let refusals = Arc::new(Semaphore::new(refuse::PLACES));
    let refusing = (refuse::router(), refuse::options(options));
    // Whoever waits is answered when the server is to end.
    let router = router.layer(Extension(Shutdown(shutdown.clone())));
    let mut connections = JoinSet::new();
    loop {
        // axum's accept sits out what passes, such as too many open files.
        let stream = tokio::select! {
            (stream, _) = Listener::accept(&mut listener) => stream,
            () = shutdown.cancelled() => break,
        };
        while connections.try_join_next().is_some() {}
        let (place, router, options) = match Arc::clone(&places).try_acquire_owned() {
            Ok(place) => (place, &router, options),
            Err(_) => match Arc::clone(&refusals).try_acquire_owned() {
                Ok(place) => (place, &refusing.0, &refusing.1),
                Err(_) => continue,
            },
        };
        let serving = connection(stream, router.clone(), options.clone(), shutdown.clone());
        connections.spawn(async move {
            serving.await;
            drop(place);
        });
    }
    drop(listener);

    let finished = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(options.grace, finished).await.is_err() {
        tracing::warn!(
            connections = connections.len(),
            "requests are cut off: they did not finish in time"
        );
        connections.shutdown().await;
    }
    Ok(())
}

/// One connection: HTTP/1.1, closed after the current request once `shutdown` is there.
async fn connection(stream: TcpStream, router: Router, options: ConnectionOptions, shutdown: CancellationToken) {
    // Small answers must not wait for the acknowledgement of the last one.
    let _ = stream.set_nodelay(true);
    let stream = Patient::new(stream, options.write_timeout);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(options.idle_timeout)
        .max_buf_size(options.head_limit.max(HEAD_MIN))
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
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
