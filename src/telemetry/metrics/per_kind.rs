//! Counters by kind, for kinds that the database is known to have.

use std::{
    collections::HashMap,
    sync::{PoisonError, RwLock},
};

use metrics::Counter;

use super::{Metrics, catalogue::Metric};

/// The label of all unknown kinds.
const UNKNOWN: &str = "unknown";

/// One counter for each kind and word, made when the kind is first met.
#[derive(Debug)]
pub struct PerKind<const WORDS: usize> {
    metrics: Metrics,
    metric: &'static Metric,
    words: [&'static str; WORDS],
    known: RwLock<HashMap<String, [Counter; WORDS]>>,
}

impl<const WORDS: usize> PerKind<WORDS> {
    /// A metric with a kind and a word as its labels.
    #[must_use]
    pub fn new(metrics: Metrics, metric: &'static Metric, words: [&'static str; WORDS]) -> Self {
        let per_kind = Self {
            metrics,
            metric,
            words,
            known: RwLock::default(),
        };
        per_kind.add(UNKNOWN);
        per_kind
    }

    /// Counts for a kind that exists, as an answer of the database has shown.
    pub fn count(&self, kind: &str, word: usize) {
        if !self.count_if_known(kind, word) {
            self.add(kind)[word].increment(1);
        }
    }

    /// Counts for a kind that may not exist.
    pub fn count_unproven(&self, kind: &str, word: usize) {
        if !self.count_if_known(kind, word) {
            self.count_if_known(UNKNOWN, word);
        }
    }

    fn count_if_known(&self, kind: &str, word: usize) -> bool {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let Some(counters) = known.get(kind) else {
            return false;
        };
        counters[word].increment(1);
        true
    }

    fn add(&self, kind: &str) -> [Counter; WORDS] {
        let [of, by] = [self.metric.labels[0], self.metric.labels[1]];
        let counter = |word| self.metrics.counter(self.metric, &[(of, kind), (by, word)]);
        let counters = self.words.map(counter);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(kind.to_owned(), counters.clone());
        counters
    }
}
