//! Counters by kind, for kinds that exist in the database.

use std::{
    collections::HashSet,
    sync::{PoisonError, RwLock},
};

use metrics::Counter;
use tidegate::internals::metrics::{Metrics, catalogue::Metric};

/// The label of all unknown kinds.
const UNKNOWN: &str = "unknown";

/// One counter for each kind and word; those of a kind begin at zero together, when it is first counted.
#[derive(Debug)]
pub(super) struct PerKind {
    metrics: Metrics,
    metric: &'static Metric,
    words: &'static [&'static str],
    known: RwLock<HashSet<String>>,
}

impl PerKind {
    /// A metric with a kind and one of these words as its labels.
    #[must_use]
    pub(super) fn new(metrics: Metrics, metric: &'static Metric, words: &'static [&'static str]) -> Self {
        let per_kind = Self { metrics, metric, words, known: RwLock::default() };
        per_kind.add(UNKNOWN);
        per_kind
    }

    /// Counts for a kind that exists, as an answer of the database has shown.
    pub(super) fn count(&self, kind: &str, word: &str) {
        if !self.is_known(kind) {
            self.add(kind);
        }
        self.counter(kind, word).increment(1);
    }

    /// Counts for a kind that may not exist.
    pub(super) fn count_unproven(&self, kind: &str, word: &str) {
        let kind = if self.is_known(kind) { kind } else { UNKNOWN };
        self.counter(kind, word).increment(1);
    }

    fn is_known(&self, kind: &str) -> bool {
        self.known.read().unwrap_or_else(PoisonError::into_inner).contains(kind)
    }

    fn add(&self, kind: &str) {
        for word in self.words {
            self.counter(kind, word).increment(0);
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(kind.to_owned());
    }

    fn counter(&self, kind: &str, word: &str) -> Counter {
        let labels = [(self.metric.labels[0], kind), (self.metric.labels[1], word)];
        self.metrics.counter(self.metric, &labels)
    }
}
