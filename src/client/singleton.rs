//! A task that one process of the fleet runs at a time.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use super::Result;
use crate::{error::warn_of, store::Store, worker};

/// A task that one process of the fleet runs at a time, under a lease with an epoch.
///
/// ```no_run
/// # use tidegate::Tidegate;
/// # async fn example(tidegate: Tidegate, stop: tokio_util::sync::CancellationToken) -> Result<(), tidegate::Error> {
/// let prices = tidegate.singleton("prices").until(stop);
/// prices
///     .run(async |epoch, cancelled| {
///         // Read prices until `cancelled`; each write names `epoch`.
///     })
///     .await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a singleton does nothing before it is run"]
pub struct Singleton {
    store: Store,
    name: String,
    lease: Duration,
    stop: CancellationToken,
}

impl Singleton {
    pub(super) fn new(store: Store, name: String) -> Self {
        Self { store, name, lease: Duration::from_secs(5), stop: CancellationToken::new() }
    }

    /// How long its lease lasts after a process that holds it has died: 5 seconds by default. Another process takes over
    /// at most a third of that time later.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Stops it when `stop` is cancelled.
    pub fn until(mut self, stop: CancellationToken) -> Self {
        self.stop = stop;
        self
    }

    /// Runs the task whenever this process can take the lease, until it is stopped; keeps the lease on a connection of
    /// its own. A task that returns releases the lease, and runs again later in one of the processes.
    ///
    /// The task gets its epoch, which is greater than those of all earlier leases: a write that names it can be refused
    /// when a later one has written. Its token is cancelled when the lease is lost, and when this stops: it then has the
    /// time of a lease to return. It is dropped when that time, or the lease, has ended.
    ///
    /// # Errors
    ///
    /// One of the database that does not pass by itself: an invalid name or length, a right that is missing.
    pub async fn run(self, mut task: impl AsyncFnMut(i64, CancellationToken)) -> Result<()> {
        let holder = worker::own_name();
        // A statement that hangs leaves time for another one.
        let store = self.store.with_own_pool(1).with_time_limit(self.lease / 3);
        while !self.stop.is_cancelled() {
            let asked = Instant::now();
            let taken = store.lease_take(&self.name, &holder, self.lease);
            match self.stop.run_until_cancelled(taken).await.unwrap_or(Ok(None)) {
                Ok(Some(epoch)) => {
                    tracing::info!(singleton.name = self.name, epoch, "lease taken, the task runs in this process");
                    let lease = Lease {
                        store: store.clone(),
                        name: self.name.clone(),
                        epoch,
                        length: self.lease,
                        until: asked + self.lease,
                    };
                    lease.hold(self.stop.child_token(), &mut task).await;
                }
                Ok(None) => {}
                Err(error) if error.is_transient() => {
                    warn_of!(error, singleton.name = self.name, "failed to take the lease");
                }
                Err(error) => return Err(error.into()),
            }
            self.stop.run_until_cancelled(tokio::time::sleep(self.lease / 3)).await;
        }
        Ok(())
    }
}

/// A lease that is held, by this process's own monotonic clock: counted from before it was asked for, so never longer
/// than by the database's clock.
#[derive(Clone)]
struct Lease {
    store: Store,
    name: String,
    epoch: i64,
    length: Duration,
    until: Instant,
}

impl Lease {
    /// Runs the task until it returns, the lease is lost, or the time to stop has passed.
    async fn hold(self, cancelled: CancellationToken, task: &mut impl AsyncFnMut(i64, CancellationToken)) {
        // For tasks that the task has spawned.
        let _ended = cancelled.clone().drop_guard();
        // A task of its own: one that keeps its thread busy does not lose its lease.
        let kept = AbortOnDropHandle::new(tokio::spawn(self.clone().keep(cancelled.clone())));
        let stopped = async {
            cancelled.cancelled().await;
            tokio::time::sleep(self.length).await;
        };
        tokio::select! {
            () = task(self.epoch, cancelled.clone()) => {}
            _ = kept => {}
            () = stopped => {}
        }
        let released = self.store.lease_release(&self.name, self.epoch);
        if let Ok(Err(error)) = tokio::time::timeout(self.length / 3, released).await {
            warn_of!(error, singleton.name = self.name, "failed to release the lease");
        }
    }

    /// Keeps the lease as long as it can; then cancels the task, and returns when the lease has ended.
    async fn keep(mut self, cancelled: CancellationToken) {
        let mut pause = self.length / 3;
        loop {
            tokio::time::sleep(pause).await;
            let asked = Instant::now();
            let kept = self.store.lease_keep(&self.name, self.epoch, self.length);
            match tokio::time::timeout_at(self.until - self.length / 6, kept).await {
                Ok(Ok(true)) => (self.until, pause) = (asked + self.length, self.length / 3),
                Ok(Err(error)) => {
                    warn_of!(error, singleton.name = self.name, "failed to keep the lease");
                    pause = self.length / 12;
                }
                lost => {
                    tracing::warn!(
                        singleton.name = self.name,
                        self.epoch,
                        "lease lost, the task stops in this process"
                    );
                    cancelled.cancel();
                    if lost.is_err() {
                        tokio::time::sleep_until(self.until).await;
                    }
                    return;
                }
            }
        }
    }
}
