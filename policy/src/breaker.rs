//! A circuit breaker: it stops calls to a dependency that fails.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::{Class, Failure};
use window::Window;

#[cfg(test)]
mod tests;
mod window;

/// The `retry_after` of a half-open breaker whose probes are all under way.
const PROBES_UNDER_WAY: Duration = Duration::from_millis(250);

/// When a breaker opens, for how long, and when it closes again.
///
/// Source: the seed's chapter 5, VI (trip on error-rate or latency thresholds, half-open probes to restore); the rules
/// are those of the fleet-wide breaker in the database, where a call that timed out is also slow.
#[derive(Debug, Clone, PartialEq)]
pub struct BreakerPolicy {
    /// The calls that ended within this time count (and up to a twentieth of it longer).
    pub window: Duration,
    /// It opens only when at least this many calls count.
    pub samples_min: u32,
    /// It opens when this share of the calls failed, 0 to 1; `None`: failures do not open it.
    pub error_rate: Option<f64>,
    /// It opens when at least half of the calls took longer than this; `None`: slowness does not open it.
    pub latency: Option<Duration>,
    /// How long it stays open.
    pub open_for: Duration,
    /// How many calls are allowed while it is half open, which all have to succeed; 0 counts as 1.
    pub probes: u32,
}

impl Default for BreakerPolicy {
    /// Opens for 5 s when half of at least 20 calls of the last 10 s failed; one probe.
    fn default() -> Self {
        Self {
            window: Duration::from_secs(10),
            samples_min: 20,
            error_rate: Some(0.5),
            latency: None,
            open_for: Duration::from_secs(5),
            probes: 1,
        }
    }
}

/// A circuit breaker: closed, open until a time, or half open with a bounded number of probes.
///
/// It has no clock: the time is a parameter, from tokio's [`Instant::now`] or a test's own. Cheap to clone; clones
/// share it.
#[derive(Debug, Clone)]
pub struct Breaker(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    policy: BreakerPolicy,
    /// Counts the changes of state; a permit belongs to the epoch in which it was given.
    epoch: u64,
    state: BreakerState,
    /// The calls of this epoch that are under way, and the probes that have succeeded.
    running: u32,
    succeeded: u32,
    window: Window,
}

/// The state of a breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    /// It allows calls.
    Closed,
    /// It refuses calls.
    Open {
        /// When it becomes half open.
        until: Instant,
    },
    /// It allows a bounded number of probes.
    HalfOpen,
}

/// How a call ended, with regard to its dependency's health. The caller of a call that does not show it, because it was
/// cancelled or throttled, drops the permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallEnd {
    /// The dependency answered, even with a refusal.
    Answered,
    /// It failed, was not reached, or did not answer in time.
    Failed,
}

/// The breaker refused a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the breaker is open; retry in {retry_after:?}")]
pub struct Refused {
    /// When to ask again: the rest of its open time, or 250 ms while probes are under way.
    pub retry_after: Duration,
}

impl Failure for Refused {
    fn class(&self) -> Class {
        Class::Other
    }

    fn code(&self) -> &'static str {
        "breaker_open"
    }

    fn retry_after(&self) -> Option<Duration> {
        Some(self.retry_after)
    }
}

impl Breaker {
    /// A closed breaker without samples.
    #[must_use]
    pub fn new(policy: BreakerPolicy) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            window: Window::new(policy.window),
            policy,
            epoch: 0,
            state: BreakerState::Closed,
            running: 0,
            succeeded: 0,
        })))
    }

    /// Asks for permission to make a call.
    ///
    /// An open breaker whose time is over becomes half open here: as many callers as the policy has probes get a
    /// permit.
    ///
    /// # Errors
    ///
    /// [`Refused`] while it is open, and half open while its probes are under way.
    pub fn try_acquire(&self, now: Instant) -> Result<Permit, Refused> {
        let mut inner = self.inner();
        inner.leave_open(now);
        let refused_for = match inner.state {
            BreakerState::Closed => None,
            BreakerState::Open { until } => Some(until.saturating_duration_since(now)),
            BreakerState::HalfOpen => (inner.running + inner.succeeded >= inner.probes()).then_some(PROBES_UNDER_WAY),
        };
        if let Some(retry_after) = refused_for {
            return Err(Refused { retry_after });
        }
        inner.running += 1;
        Ok(Permit { breaker: self.clone(), epoch: inner.epoch, probe: inner.state == BreakerState::HalfOpen })
    }

    /// Its state at `now`.
    #[must_use]
    pub fn state(&self, now: Instant) -> BreakerState {
        let mut inner = self.inner();
        inner.leave_open(now);
        inner.state
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // No code panics under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn probes(&self) -> u32 {
        self.policy.probes.max(1)
    }

    /// Whether the counts of the window open the breaker.
    fn trips(&self) -> bool {
        let seen = self.window.seen();
        seen.calls >= u64::from(self.policy.samples_min.max(1))
            && (self
                .policy
                .error_rate
                .is_some_and(|rate| seen.failed > 0 && seen.failed as f64 >= rate * seen.calls as f64)
                || seen.slow > 0 && seen.slow * 2 >= seen.calls)
    }

    fn leave_open(&mut self, now: Instant) {
        if matches!(self.state, BreakerState::Open { until } if until <= now) {
            self.change(BreakerState::HalfOpen);
        }
    }

    /// Begins a new state, to which earlier counts do not apply.
    fn change(&mut self, state: BreakerState) {
        self.epoch += 1;
        self.state = state;
        (self.running, self.succeeded) = (0, 0);
        self.window.clear();
    }

    fn open(&mut self, now: Instant) {
        // A time that overflows the clock counts as a year.
        let until = now.checked_add(self.policy.open_for).unwrap_or_else(|| now + Duration::from_secs(31_536_000));
        self.change(BreakerState::Open { until });
    }
}

/// Permission to make one call. When it is dropped without a record, the call does not count; a probe's place becomes
/// free.
#[derive(Debug)]
#[must_use = "a dropped permit records no outcome"]
pub struct Permit {
    breaker: Breaker,
    epoch: u64,
    probe: bool,
}

impl Permit {
    /// Whether the call is one of a half-open breaker's probes.
    #[must_use]
    pub fn is_probe(&self) -> bool {
        self.probe
    }

    /// Records how the call ended at `now`, `latency` after it began.
    ///
    /// A call from before the breaker's last change of state is not counted: it does not describe the present. A probe
    /// that fails, or takes longer than the policy's `latency`, opens the breaker again.
    pub fn record(self, now: Instant, end: CallEnd, latency: Duration) {
        let mut inner = self.breaker.inner();
        if inner.epoch != self.epoch {
            return;
        }
        let failed = end == CallEnd::Failed;
        let slow = inner.policy.latency.is_some_and(|limit| latency > limit);
        match inner.state {
            BreakerState::Closed => {
                inner.window.count(now, failed, slow);
                if inner.trips() {
                    inner.open(now);
                }
            }
            BreakerState::HalfOpen if failed || slow => inner.open(now),
            // The permit's drop subtracts it from the running calls.
            BreakerState::HalfOpen => {
                inner.succeeded += 1;
                if inner.succeeded >= inner.probes() {
                    inner.change(BreakerState::Closed);
                }
            }
            BreakerState::Open { .. } => {}
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut inner = self.breaker.inner();
        if inner.epoch == self.epoch {
            inner.running = inner.running.saturating_sub(1);
        }
    }
}
