//! Accepts connections, limits them, and shuts down.

use std::{io, sync::Arc, time::Duration};

use axum::{
    Extension, Router,
    extract::Request,
    http::{
        Version,
        header::{CACHE_CONTROL, CONNECTION, HOST},
    },
    middleware::{self, Next},
    response::{IntoResponse, Response},
    serve::Listener,
};
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
};
use tokio_io_timeout::TimeoutStream;
use tokio_util::sync::CancellationToken;

use super::{
    body,
    problem::{INVALID_HEADER, OVERLOADED},
    waiting::Shutdown,
};
use crate::state::options::ConnectionOptions;

/// Connections beyond the limit that are answered 503 at once, so that their callers can choose another node; one more
/// is closed without an answer.
const REFUSALS_MAX: usize = 64;

/// How long such a connection may take to send its request, and to receive the answer.
const REFUSAL_TIME: Duration = Duration::from_secs(1);

/// How much of a refused call's body is read, so that its sender gets the answer.
const DISCARD_MAX: usize = 64 * 1024;

/// The smallest head limit that the HTTP library works with.
const HEAD_MIN: usize = 8 * 1024;

/// As [`serve_within`], within the default limits.
///
/// # Errors
///
/// None today: an error ends only its own connection.
pub async fn serve(listener: TcpListener, router: Router, shutdown: CancellationToken) -> io::Result<()> {
    serve_within(listener, router, &ConnectionOptions::default(), shutdown).await
}

/// Serves connections until `shutdown`; then takes no new ones and returns when the requests in flight are finished, or
/// after `grace`.
///
/// # Errors
///
/// None today: an error ends only its own connection.
pub async fn serve_within(
    mut listener: TcpListener,
    router: Router,
    options: &ConnectionOptions,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let permits = Arc::new(Semaphore::new(options.connection_limit.min(Semaphore::MAX_PERMITS)));
    let refusals = Arc::new(Semaphore::new(REFUSALS_MAX));
    let refusing = Router::new().fallback(refuse);
    let refusal_options =
        ConnectionOptions { idle_timeout: REFUSAL_TIME, write_timeout: REFUSAL_TIME, ..options.clone() };
    // Waiting calls are answered at shutdown.
    let router = router.layer(Extension(Shutdown(shutdown.clone()))).layer(middleware::from_fn(require_host));
    let mut connections = JoinSet::new();
    loop {
        let stream = tokio::select! {
            // Clients that have connected before the shutdown are answered.
            biased;
            // axum's accept retries after temporary errors, such as too many open files.
            (stream, _) = Listener::accept(&mut listener) => stream,
            () = shutdown.cancelled() => break,
        };
        while connections.try_join_next().is_some() {}
        let (permit, router, options) = if let Ok(permit) = Arc::clone(&permits).try_acquire_owned() {
            (permit, &router, options)
        } else if let Ok(permit) = Arc::clone(&refusals).try_acquire_owned() {
            (permit, &refusing, &refusal_options)
        } else {
            continue;
        };
        let serving = connection(stream, router.clone(), options.clone(), shutdown.clone());
        connections.spawn(async move {
            serving.await;
            drop(permit);
        });
    }
    drop(listener);

    let finished = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(options.grace, finished).await.is_err() {
        tracing::warn!(connections = connections.len(), "closing connections whose requests are unfinished");
        connections.shutdown().await;
    }
    Ok(())
}

async fn refuse(request: Request) -> Response {
    let _ = tokio::time::timeout(REFUSAL_TIME, body::discard(request, DISCARD_MAX)).await;
    let headers = [(CONNECTION, "close"), (CACHE_CONTROL, "no-store")];
    let refusal = OVERLOADED.because("as many connections as this node serves are open");
    (headers, refusal).into_response()
}

/// Limits the time without progress of writes; hyper and the handlers limit reads.
fn with_write_timeout<S: AsyncRead + AsyncWrite>(stream: S, time_limit: Duration) -> TimeoutStream<S> {
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(time_limit));
    stream
}

/// Serves one connection over HTTP/1.1; after `shutdown` it is closed with the end of the current request.
async fn connection(stream: TcpStream, router: Router, options: ConnectionOptions, shutdown: CancellationToken) {
    // Small answers must not wait for the acknowledgement of the previous one.
    let _ = stream.set_nodelay(true);
    let stream = Box::pin(with_write_timeout(stream, options.write_timeout));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(options.idle_timeout)
        .max_buf_size(options.head_limit.max(HEAD_MIN))
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);

    let ended = tokio::select! {
        // So is a request that has arrived.
        biased;
        ended = connection.as_mut() => ended,
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection failed");
    }
}

/// Refuses a call of HTTP/1.1 without `Host`, or with several, as RFC 9112 demands: a proxy may route it by another one.
async fn require_host(request: Request, next: Next) -> Response {
    let hosts = request.headers().get_all(HOST).iter().count();
    if request.version() == Version::HTTP_11 && hosts != 1 {
        let refusal = INVALID_HEADER.because(format!("a call has one Host header, not {hosts}"));
        return ([(CONNECTION, "close")], refusal).into_response();
    }
    next.run(request).await
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt, duplex},
        time::sleep,
    };

    use super::*;

    #[tokio::test]
    async fn clients_that_have_connected_before_the_shutdown_are_answered() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut clients = Vec::new();
        for _ in 0..100 {
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            client.write_all(b"GET / HTTP/1.1\r\nhost: node\r\n\r\n").await.unwrap();
            clients.push(client);
        }
        let shutdown = CancellationToken::new();
        shutdown.cancel();

        let router = Router::new().fallback(async || "answer");
        serve(listener, router, shutdown).await.unwrap();

        for mut client in clients {
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            assert!(answer.ends_with("answer"), "{answer}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_reads_nothing_is_cut_off_and_a_slow_one_is_not() {
        let (ours, mut theirs) = duplex(10);
        let mut stream = Box::pin(with_write_timeout(ours, Duration::from_secs(30)));
        let slow = tokio::spawn(async move {
            let mut taken = [0; 1];
            for _ in 0..20 {
                sleep(Duration::from_secs(20)).await;
                theirs.read_exact(&mut taken).await.unwrap();
            }
            theirs
        });
        // The client reads 20 of 30 bytes over 400 s, the last 10 fit; then it reads nothing.
        stream.write_all(&[1; 30]).await.unwrap();
        let _theirs = slow.await.unwrap();

        let stalled = stream.write_all(&[1; 11]).await;

        assert_eq!(stalled.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
