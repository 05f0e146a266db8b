//! The wait for the leases of requests in flight to run out.

use std::time::Duration;

use tidegate::internals::{error::Result, store::Store};
use tokio::time::{Instant, sleep};

use crate::{
    cli::table::{or_dash, plain},
    logs::print_err,
};

/// The time between two readings of the leases.
const PAUSE: Duration = Duration::from_millis(500);

/// How many workers are listed.
const SHOWN: usize = 20;

/// Waits until the leases that are live now have run out, or were settled or extended; no longer than `limit`. Returns how
/// many requests are still under one of them.
///
/// A lease that is extended is that of a live worker, so the wait ends with the longest lease of a lost one.
pub(super) async fn for_leases(store: &Store, kind: Option<&str>, limit: Duration) -> Result<i64> {
    let began = Instant::now();
    let mut live = store.live_sends(kind, None).await?;
    let until = live.iter().map(|sends| sends.until).max();
    for (place, sends) in live.iter().enumerate() {
        if place == 0 {
            print_err(format_args!("waiting for the leases of requests in flight, {} s at most:", sends.seconds));
        }
        if place == SHOWN {
            print_err(format_args!("  … and {} more workers", live.len() - SHOWN));
            break;
        }
        let worker = or_dash(sends.worker.as_deref());
        print_err(format_args!(
            "  queue {}, worker {}: {} for {} s",
            sends.queue,
            plain(&worker),
            sends.requests,
            sends.seconds
        ));
    }
    while !live.is_empty() && began.elapsed() < limit {
        sleep(PAUSE.min(limit.saturating_sub(began.elapsed()))).await;
        live = store.live_sends(kind, until).await?;
    }
    Ok(live.iter().map(|sends| sends.requests).sum())
}
