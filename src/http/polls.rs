//! What callers make of what they are told: how often they poll until they have the answer, and how late they are.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ::metrics::Histogram;

use super::statistics::Statistics;
use crate::{
    request::RequestId,
    store::Outlook,
    telemetry::metrics::{
        Metrics,
        catalogue::{POLL_LATENESS, POLLS_PER_REQUEST},
    },
};

/// Requests that are remembered, with and without an end; the oldest are forgotten first.
const REMEMBERED: usize = 50_000;

/// The polls that this node has answered.
#[derive(Clone)]
pub(super) struct Polls(Arc<Shared>);

struct Shared {
    metrics: Metrics,
    statistics: Statistics,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    recent: Recent,
    /// Of every kind that was polled with success: an operator's words, so there are few.
    figures: HashMap<String, Figures>,
}

/// What the metrics observe of a kind.
struct Figures {
    polls: Histogram,
    lateness: Histogram,
}

impl Figures {
    fn of(metrics: &Metrics, kind: &str) -> Self {
        let histogram = |metric| metrics.histogram(metric, &[("kind", kind)]);
        Self {
            polls: histogram(&POLLS_PER_REQUEST),
            lateness: histogram(&POLL_LATENESS),
        }
    }
}

/// The requests polled of late, oldest first.
#[derive(Default)]
struct Recent {
    polls: HashMap<RequestId, Polled>,
    order: VecDeque<RequestId>,
}

enum Polled {
    /// So many times, without an end.
    InProgress(u64),
    /// Its end was told.
    Answered,
}

impl Recent {
    /// Counts a poll; the number of all polls when it is the one that tells the request's end.
    fn count(&mut self, id: RequestId, ended: bool) -> Option<u64> {
        if !self.polls.contains_key(&id) {
            if self.order.len() == REMEMBERED
                && let Some(oldest) = self.order.pop_front()
            {
                self.polls.remove(&oldest);
            }
            self.order.push_back(id);
        }
        let polled = self.polls.entry(id).or_insert(Polled::InProgress(0));
        match polled {
            // Whoever asks again is not waiting for it.
            Polled::Answered => None,
            Polled::InProgress(polls) => {
                *polls += 1;
                let polls = *polls;
                if ended {
                    *polled = Polled::Answered;
                }
                ended.then_some(polls)
            }
        }
    }
}

impl Polls {
    pub(super) fn new(statistics: Statistics, metrics: Metrics) -> Self {
        Self(Arc::new(Shared {
            metrics,
            statistics,
            counts: Mutex::default(),
        }))
    }

    /// Counts a poll that is answered with this.
    #[expect(clippy::cast_precision_loss, reason = "nobody polls 2^52 times")]
    pub(super) fn count(&self, outlook: &Outlook) {
        let Outlook { id, kind, elapsed, .. } = outlook;
        let mut counts = self.counts();
        let Some(polls) = counts.recent.count(*id, outlook.status.is_terminal()) else {
            return;
        };
        let figures = counts
            .figures
            .entry(kind.clone())
            .or_insert_with(|| Figures::of(&self.0.metrics, kind));
        figures.polls.record(polls as f64);
        figures.lateness.record(*elapsed);
        drop(counts);

        self.0.statistics.answered(kind, polls, *elapsed);
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        // Counts are whole whatever happened to who held the lock.
        self.0.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u128) -> RequestId {
        RequestId(uuid::Uuid::from_u128(number))
    }

    #[test]
    fn the_end_of_a_request_is_told_once_with_the_polls_it_took() {
        let mut recent = Recent::default();

        assert_eq!(recent.count(id(1), false), None);
        assert_eq!(recent.count(id(1), false), None);
        assert_eq!(recent.count(id(2), true), Some(1));
        assert_eq!(recent.count(id(1), true), Some(3));
        assert_eq!(recent.count(id(1), true), None);
    }

    #[test]
    fn the_oldest_are_forgotten_first() {
        let mut recent = Recent::default();

        for number in 0..=REMEMBERED as u128 {
            recent.count(id(number), false);
        }

        assert_eq!(recent.polls.len(), REMEMBERED);
        assert_eq!(recent.count(id(REMEMBERED as u128), true), Some(2));
        assert_eq!(recent.count(id(0), true), Some(1));
    }
}
