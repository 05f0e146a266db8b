//! The metrics of one queue of a worker.

use std::collections::HashMap;

use metrics::{Counter, Histogram};
use tokio::time::Instant;

use super::outcome;
use crate::metrics::{
    Metrics,
    catalogue::{WORKER_CALL_DURATION, WORKER_CLAIMED, WORKER_HEDGES, WORKER_LEASES_LOST, WORKER_SETTLED},
};

/// Counters and a histogram, made once.
#[derive(Debug, Clone)]
pub(super) struct Meter {
    metrics: Metrics,
    claimed: Counter,
    calls: Histogram,
    hedges: Counter,
    lost: Counter,
    /// By the outcome.
    settled: HashMap<&'static str, Counter>,
}

impl Meter {
    pub(super) fn new(metrics: Metrics, queue: &str) -> Self {
        let of = [("queue", queue)];
        Self {
            claimed: metrics.counter(&WORKER_CLAIMED, &of),
            calls: metrics.histogram(&WORKER_CALL_DURATION, &of),
            hedges: metrics.counter(&WORKER_HEDGES, &of),
            lost: metrics.counter(&WORKER_LEASES_LOST, &of),
            settled: HashMap::from(outcome::WORDS.map(|word| {
                let of = [("queue", queue), ("outcome", word)];
                (word, metrics.counter(&WORKER_SETTLED, &of))
            })),
            metrics,
        }
    }

    pub(super) fn claimed(&self, requests: usize) {
        self.claimed.increment(requests as u64);
        self.metrics.upkeep();
    }

    pub(super) fn called(&self, claimed_at: Instant) {
        self.calls.record(claimed_at.elapsed());
    }

    /// Counts a hedge.
    pub(super) fn hedged(&self) {
        self.hedges.increment(1);
    }

    /// Counts a settled outcome.
    pub(super) fn settled(&self, word: &str) {
        self.settled[word].increment(1);
    }

    pub(super) fn lost(&self, requests: usize) {
        self.lost.increment(requests as u64);
    }
}
