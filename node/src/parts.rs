//! The parts of a process that run beside its server.

use std::{io, pin::pin};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Runs a part of the process, and returns its name.
pub(super) async fn part(name: &'static str, running: impl Future<Output = ()>) -> &'static str {
    running.await;
    name
}

/// Serves until `stop`, and then until all parts have ended. When one of them ends before, the process stops: without
/// it, the node would report that it is healthy and not be.
pub(super) async fn together(
    served: impl Future<Output = io::Result<()>>,
    mut parts: JoinSet<&'static str>,
    stop: &CancellationToken,
) -> io::Result<()> {
    let mut served = pin!(served);
    let mut ended_early = None;
    let outcome = tokio::select! {
        outcome = &mut served => outcome,
        Some(ended) = parts.join_next() => {
            if !stop.is_cancelled() {
                ended_early = Some(match ended {
                    Ok(name) => io::Error::other(format!("{name} has ended by itself, so this node stops: start it again")),
                    Err(error) => io::Error::other(format!("a part of this node broke down, so it stops: {error}")),
                });
            }
            stop.cancel();
            served.await
        }
    };
    stop.cancel();
    while let Some(ended) = parts.join_next().await {
        if let Err(error) = ended {
            ended_early.get_or_insert_with(|| io::Error::other(format!("a part of this node broke down: {error}")));
        }
    }
    match ended_early {
        Some(error) => Err(error),
        None => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves until `stop`.
    async fn serving(stop: CancellationToken) -> io::Result<()> {
        stop.cancelled().await;
        Ok(())
    }

    #[tokio::test]
    async fn a_part_that_ends_or_breaks_down_ends_the_process_with_an_error() {
        for (breaks_down, words) in [(false, "maintenance has ended"), (true, "broke down")] {
            let stop = CancellationToken::new();
            let mut parts = JoinSet::new();
            parts.spawn(part("the other", stop.clone().cancelled_owned()));
            parts.spawn(part("maintenance", async move {
                assert!(!breaks_down, "on purpose");
            }));

            let error = together(serving(stop.clone()), parts, &stop).await.unwrap_err();

            assert!(error.to_string().contains(words), "{error}");
        }
    }

    #[tokio::test]
    async fn parts_that_end_after_the_stop_are_no_error() {
        let stop = CancellationToken::new();
        let mut parts = JoinSet::new();
        parts.spawn(part("maintenance", stop.clone().cancelled_owned()));
        stop.cancel();

        together(serving(stop.clone()), parts, &stop).await.unwrap();
    }
}
