//! Runs the maintenance duties that are due, next to the other tasks of a process.
//!
//! `tidegate.maintain` has the list of duties, the table `maintenance` their periods; one process at a time runs each. A
//! duty that fails is a warning of the database; an error here is one of the whole call.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::{error::warn_of, store::Store};

/// How often a process asks whether a duty is due.
const PERIOD: Duration = Duration::from_secs(1);

/// Maintains until `shutdown`, on a connection of its own: each session plans the duties' statements when it first runs
/// them, which takes tens of milliseconds, and keeps the plans.
pub async fn run(store: Store, shutdown: CancellationToken) {
    let store = store.with_own_pool(1);
    let mut failing = false;
    let period = async || {
        tokio::time::sleep(PERIOD).await;
        store.maintain().await
    };
    // Each batch of a duty commits: one that is cut off loses a batch, and the next process that runs it continues.
    while let Some(maintained) = shutdown.run_until_cancelled(period()).await {
        // Logged once, not every second.
        if let Err(error) = &maintained
            && !failing
        {
            warn_of!(error, "maintenance failed, and is repeated");
        }
        failing = maintained.is_err();
    }
}
