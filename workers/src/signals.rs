//! SIGTERM and Ctrl-C.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Cancelled by the first signal. The second ends the process at once.
///
/// Has to be called in a runtime.
pub(crate) fn shutdown() -> std::io::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let token = CancellationToken::new();
    let shutdown = token.clone();
    tokio::spawn(async move {
        for first in [true, false] {
            // The exit codes a shell would show for a process that the signal ended.
            let code = tokio::select! {
                _ = terminate.recv() => 128 + 15,
                _ = interrupt.recv() => 128 + 2,
            };
            if first {
                tracing::info!("stopping; a second signal stops at once");
                shutdown.cancel();
            } else {
                std::process::exit(code);
            }
        }
    });
    Ok(token)
}
