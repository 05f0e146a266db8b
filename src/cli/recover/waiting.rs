//! The wait for the leases of requests in flight to run out.

use std::time::Duration;

use humantime::format_duration;
use tokio::time::{Instant, sleep};

use crate::{
    cli::table::plain,
    error::Result,
    store::{LiveSends, Store},
};

/// The longest and the shortest pause between two readings of the leases.
const PAUSE_MAX: Duration = Duration::from_secs(1);
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// How many workers are listed.
const SHOWN: usize = 20;

/// Waits until the leases that are live now have run out, or were settled or extended; no longer than `limit`. Returns how
/// many requests are still under one of them.
///
/// A lease that is extended is that of a live worker, so the wait ends with the longest lease of a lost one.
pub(super) async fn for_leases(store: &Store, kind: Option<&str>, limit: Duration) -> Result<i64> {
    let live = store.live_sends(kind, None).await?;
    let Some(until) = live.iter().map(|sends| sends.until).max() else {
        return Ok(0);
    };
    announce(&live);
    let began = Instant::now();
    loop {
        let left = store.live_sends(kind, Some(until)).await?;
        let requests = left.iter().map(|sends| sends.requests).sum();
        let passed = began.elapsed();
        if requests == 0 {
            eprintln!("waited {}", whole_seconds(passed));
            return Ok(0);
        }
        if passed >= limit {
            eprintln!(
                "{requests} requests are still under a lease after {}: they are left alone",
                format_duration(limit)
            );
            return Ok(requests);
        }
        let longest = longest(&left);
        sleep(longest.clamp(PAUSE_MIN, PAUSE_MAX).min(limit - passed)).await;
    }
}

/// Prints on stderr which leases are waited for, and how long they last.
fn announce(live: &[LiveSends]) {
    let requests: i64 = live.iter().map(|sends| sends.requests).sum();
    eprintln!(
        "waiting for the leases of {requests} requests in flight, {} at most:",
        whole_seconds(longest(live))
    );
    for sends in live.iter().take(SHOWN) {
        eprintln!(
            "  queue {}, worker {}: {} for {}",
            sends.queue,
            plain(sends.worker.as_deref().unwrap_or("-")),
            sends.requests,
            whole_seconds(longest(std::slice::from_ref(sends))),
        );
    }
    if live.len() > SHOWN {
        eprintln!("  … and {} more workers", live.len() - SHOWN);
    }
}

fn longest(live: &[LiveSends]) -> Duration {
    let seconds = live.iter().map(|sends| sends.seconds).fold(0.0, f64::max);
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}

/// A time in whole seconds, rounded up.
fn whole_seconds(time: Duration) -> humantime::FormattedDuration {
    let more = u64::from(time.subsec_nanos() > 0);
    format_duration(Duration::from_secs(time.as_secs().saturating_add(more)))
}
