//! The shutdown signals.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A token that is cancelled by the first SIGTERM or SIGINT. The second one ends the process at once.
///
/// # Errors
///
/// When the process may not watch signals.
pub fn on_signal() -> std::io::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let token = CancellationToken::new();
    let cancelled = token.clone();
    tokio::spawn(async move {
        let mut signalled = async || {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        signalled().await;
        cancelled.cancel();
        tracing::info!("stopping; a second signal ends at once");
        signalled().await;
        // 130: ended by a signal, as shells report it.
        std::process::exit(130);
    });
    Ok(token)
}
