//! A switch that keeps calls from a dependency that fails.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::{Class, Failure};
use window::Window;

#[cfg(test)]
mod tests;
mod window;

/// How long to leave a half-open breaker alone whose probes are all under way.
const LOOK: Duration = Duration::from_millis(250);

/// When a breaker opens, for how long, and what closes it again.
///
/// Source: the seed's chapter 5, VI (trip on error-rate or latency thresholds, half-open probes to restore); the rules
/// are those of the fleet-wide breaker in the database.
#[derive(Debug, Clone, PartialEq)]
pub struct BreakerPolicy {
    /// It looks at the calls that ended within this time (and up to a twentieth of it longer).
    pub window: Duration,
    /// It judges from this many calls on.
    pub samples_min: u32,
    /// It opens when this share of the calls failed, 0 to 1; `None`: failures do not open it.
    pub error_rate: Option<f64>,
    /// It opens when at least half of the calls took longer than this; `None`: slowness does not open it.
    pub latency: Option<Duration>,
    /// How long it stays open.
    pub open_for: Duration,
    /// How many calls are let through while it is half open, which all have to succeed; 0 counts as 1.
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
/// It has no clock: the time comes in, from tokio's [`Instant::now`] or a test's own. Cheap to clone; clones share it.
#[derive(Clone)]
pub struct Breaker(Arc<Shared>);

struct Shared {
    policy: BreakerPolicy,
    inner: Mutex<Inner>,
}

struct Inner {
    /// Counts the changes of state; a permit is of the epoch in which it was given.
    epoch: u64,
    state: State,
    window: Window,
}

#[derive(Debug, Clone, Copy)]
enum State {
    Closed,
    Open { until: Instant },
    HalfOpen { running: u32, succeeded: u32 },
}

/// What a breaker does with calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerState {
    /// It lets them through.
    Closed,
    /// It refuses them.
    Open {
        /// Until then.
        until: Instant,
    },
    /// It lets some through, to see how they fare.
    HalfOpen,
}

/// How a call ended, as far as its dependency's health is concerned. A call that says nothing of it, because it was
/// cancelled or throttled, drops its permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallEnd {
    /// The dependency answered, be it with a refusal.
    Answered,
    /// It failed, was not reached, or did not answer in time.
    Failed,
}

/// The breaker lets no call through now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the breaker is open; worth another try in {retry_after:?}")]
pub struct Refused {
    /// When to ask again: what is left of the time it is open, or a moment while probes are under way.
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

impl fmt::Debug for Breaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Breaker")
            .field("policy", &self.0.policy)
            .field("state", &self.0.inner().state)
            .finish_non_exhaustive()
    }
}

impl Breaker {
    /// A closed breaker that has seen nothing yet.
    #[must_use]
    pub fn new(policy: BreakerPolicy) -> Self {
        let window = Window::new(policy.window);
        Self(Arc::new(Shared {
            policy,
            inner: Mutex::new(Inner {
                epoch: 0,
                state: State::Closed,
                window,
            }),
        }))
    }

    /// Asks to make a call.
    ///
    /// An open breaker whose time is over is half open from here on: of those who ask then, as many as the policy has
    /// probes get a permit.
    ///
    /// # Errors
    ///
    /// [`Refused`] while it is open, and half open while its probes are under way.
    pub fn try_acquire(&self, now: Instant) -> Result<Permit, Refused> {
        let mut inner = self.0.inner();
        inner.open_time_over(now);
        let probe = match &mut inner.state {
            State::Closed => false,
            State::Open { until } => {
                return Err(Refused {
                    retry_after: until.saturating_duration_since(now),
                });
            }
            State::HalfOpen { running, succeeded } => {
                if *running + *succeeded >= self.0.probes() {
                    return Err(Refused { retry_after: LOOK });
                }
                *running += 1;
                true
            }
        };
        Ok(Permit {
            breaker: self.clone(),
            epoch: inner.epoch,
            probe,
        })
    }

    /// What it does with calls now.
    #[must_use]
    pub fn state(&self, now: Instant) -> BreakerState {
        let mut inner = self.0.inner();
        inner.open_time_over(now);
        match inner.state {
            State::Closed => BreakerState::Closed,
            State::Open { until } => BreakerState::Open { until },
            State::HalfOpen { .. } => BreakerState::HalfOpen,
        }
    }
}

impl Shared {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Nothing panics under the lock.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn probes(&self) -> u32 {
        self.policy.probes.max(1)
    }

    /// Whether what the window shows opens the breaker.
    fn trips(&self, window: &Window) -> bool {
        let seen = window.seen();
        seen.calls >= u64::from(self.policy.samples_min.max(1))
            && (self
                .policy
                .error_rate
                .is_some_and(|rate| seen.failed > 0 && seen.failed as f64 >= rate * seen.calls as f64)
                || seen.slow > 0 && seen.slow * 2 >= seen.calls)
    }
}

impl Inner {
    fn open_time_over(&mut self, now: Instant) {
        if let State::Open { until } = self.state
            && until <= now
        {
            self.flip(State::HalfOpen {
                running: 0,
                succeeded: 0,
            });
        }
    }

    /// A new state begins; what came before tells nothing about it.
    fn flip(&mut self, state: State) {
        self.epoch += 1;
        self.state = state;
        self.window.clear();
    }

    fn open(&mut self, now: Instant, time: Duration) {
        // A time that no clock can tell is a year.
        let until = now
            .checked_add(time)
            .unwrap_or_else(|| now + Duration::from_secs(31_536_000));
        self.flip(State::Open { until });
    }
}

/// Leave to make one call. Dropped without a record, it is as if the call had not been made; a probe's place goes to
/// another.
#[derive(Debug)]
#[must_use = "dropped, it says nothing of the call"]
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

    /// Tells the breaker how the call ended at `now`, `latency` after it began.
    ///
    /// A call from before the breaker's last change of state is not counted: it says nothing about now. A probe that
    /// fails, or takes longer than the policy's `latency`, opens the breaker again.
    pub fn record(self, now: Instant, end: CallEnd, latency: Duration) {
        let shared = Arc::clone(&self.breaker.0);
        let mut inner = shared.inner();
        if inner.epoch == self.epoch {
            let failed = end == CallEnd::Failed;
            let slow = shared.policy.latency.is_some_and(|limit| latency > limit);
            match &mut inner.state {
                State::Closed => {
                    inner.window.count(now, failed, slow);
                    if shared.trips(&inner.window) {
                        inner.open(now, shared.policy.open_for);
                    }
                }
                State::HalfOpen { .. } if failed || slow => {
                    inner.open(now, shared.policy.open_for);
                }
                // The permit's drop takes it from those that run.
                State::HalfOpen { succeeded, .. } => {
                    *succeeded += 1;
                    if *succeeded >= shared.probes() {
                        inner.flip(State::Closed);
                    }
                }
                State::Open { .. } => {}
            }
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut inner = self.breaker.0.inner();
        if inner.epoch == self.epoch
            && let State::HalfOpen { running, .. } = &mut inner.state
        {
            *running = running.saturating_sub(1);
        }
    }
}
