//! What is read from a run.

use std::time::Duration;

use super::{
    scenario::Call,
    server::{Lived, Run},
};

/// The calls that began in a phase.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Of all calls, those that timed out.
    pub failure_rate: f64,
    /// Answers per second.
    pub goodput: f64,
    /// Of calls that were answered.
    pub mean: Duration,
    pub p99: Duration,
    /// Calls under way at once.
    pub most_in_flight: usize,
}

/// From the first call of a phase to the first one of the next.
pub fn span(calls: &[Call], phase: usize) -> (Duration, Duration) {
    let first = |phase| calls.iter().find(|call| call.phase == phase);
    let last = calls.last().map_or(Duration::ZERO, |call| call.arrives);
    (first(phase).map_or(last, |call| call.arrives), first(phase + 1).map_or(last, |call| call.arrives))
}

impl Run {
    /// The calls that began from `from` until `to`.
    fn began(&self, (from, to): (Duration, Duration)) -> &[Lived] {
        let place = |at| self.calls.partition_point(|call| call.began < at);
        &self.calls[place(from)..place(to)]
    }

    /// Of the calls that began in a period, those that timed out.
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    pub fn failure_rate(&self, period: (Duration, Duration)) -> f64 {
        let calls = self.began(period);
        let failed = calls.iter().filter(|call| !call.answered).count();
        failed as f64 / calls.len().max(1) as f64
    }

    /// Answers per second to the calls that began in a period.
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    pub fn goodput(&self, (from, to): (Duration, Duration)) -> f64 {
        let calls = self.began((from, to));
        let answered = calls.iter().filter(|call| call.answered).count();
        answered as f64 / (to - from).as_secs_f64()
    }

    /// The calls that began in a period.
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    pub fn measured(&self, period: (Duration, Duration)) -> Measured {
        let answered = self.began(period).iter().filter(|call| call.answered);
        let mut took: Vec<_> = answered.map(Lived::took).collect();
        took.sort_unstable();
        let total: Duration = took.iter().sum();
        Measured {
            failure_rate: self.failure_rate(period),
            goodput: self.goodput(period),
            mean: total.div_f64(took.len().max(1) as f64),
            p99: percentile(&took, 0.99),
            most_in_flight: self.most_in_flight(period),
        }
    }

    /// Calls under way at once, at most.
    fn most_in_flight(&self, (from, to): (Duration, Duration)) -> usize {
        let mut changes: Vec<_> = self
            .calls
            .iter()
            .filter(|call| call.began < to && call.ended >= from)
            .flat_map(|call| [(call.began, true), (call.ended, false)])
            .collect();
        changes.sort_unstable();
        let (mut now, mut most) = (0, 0);
        for (at, begins) in changes {
            if begins {
                now += 1;
            } else {
                now -= 1;
            }
            if at >= from && at < to {
                most = most.max(now);
            }
        }
        most
    }

    /// Calls under way, on average.
    pub fn mean_in_flight(&self, (from, to): (Duration, Duration)) -> f64 {
        let under_way: Duration =
            self.calls.iter().map(|call| call.ended.min(to).saturating_sub(call.began.max(from))).sum();
        under_way.as_secs_f64() / (to - from).as_secs_f64()
    }
}

/// Of sorted times; nothing of none.
pub fn percentile(sorted: &[Duration], share: f64) -> Duration {
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a place among a few thousand"
    )]
    let place = (sorted.len() as f64 * share) as usize;
    let last = sorted.len().saturating_sub(1);
    sorted.get(place.min(last)).copied().unwrap_or_default()
}
