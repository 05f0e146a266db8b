//! Timeouts that are learned: as short as answers allow, as long as the target failure rate needs, and short again
//! when the dependency is overloaded.
//!
//! Pure: no I/O and no clock. Source: RFC 6298 (section 2 for the estimator, 5.5 for doubling) and "RTO Specs"
//! (`docs/sources.md`), which steers its margin by a target failure rate and detects overload.
//!
//! - Each sample: `timeout = srtt + k_margin · max(G, K · rttvar)`, within `min` and `max`.
//! - Each interval: `k_margin` grows by one while at least half of the target failure rate timed out, and shrinks
//!   towards the middle between srtt and the smoothed timeout while less did; 1 at least.
//! - A computed timeout of `max` means high load: longer timeouts would only let more calls pile up (Little's law). The
//!   timeout becomes that of the best recent case, until the load has fallen to 3/4 or 12 intervals are over. Answers
//!   that need a longer timeout cannot be seen meanwhile, so after 12 intervals `max` comes first.
//!
//! [`AdaptiveTimeout`] is for a process by itself. A fleet shares an [`Estimate`]: each process has an [`Estimator`],
//! whose [`Report`]s are folded into it ([`Estimate::fold`]) once an interval; the engine's are in
//! `tidegate.timeout_estimator`.
//!
//! ```
//! use std::time::Duration;
//! use tidegate_policy::adaptive_timeout::{AdaptiveTimeout, Config};
//!
//! let milliseconds = Duration::from_millis;
//! let config = Config { max: Some(milliseconds(2000)), ..Config::default() };
//! let mut timeout = AdaptiveTimeout::new(config, Duration::ZERO)?;
//! // Before any sample the longest timeout.
//! assert_eq!(timeout.begin(milliseconds(1)), milliseconds(2000));
//! timeout.answered(milliseconds(100), milliseconds(101));
//! assert_eq!(timeout.begin(milliseconds(102)), milliseconds(300));
//! # Ok::<(), tidegate_policy::adaptive_timeout::ConfigError>(())
//! ```

mod config;
mod estimate;
mod estimator;
mod smoothed;
#[cfg(test)]
mod tests;

use std::{ops::Deref, time::Duration};

pub use self::{
    config::{BestCase, Config, ConfigError, Constants, UnknownBestCase},
    estimate::{Estimate, Report, State},
    estimator::Estimator,
};

/// The timeout of the next call to a dependency, learned by one process for itself.
///
/// `now` is the time since a moment of the caller's choice and does not go back.
#[derive(Debug, Clone)]
pub struct AdaptiveTimeout(Estimator);

impl AdaptiveTimeout {
    /// Begins without samples.
    ///
    /// # Errors
    ///
    /// An invalid configuration.
    pub fn new(config: Config, now: Duration) -> Result<Self, ConfigError> {
        let unknown = Estimate::unknown(&config, microseconds(now));
        Estimator::new(config, unknown, 0, now).map(Self)
    }

    /// Goes on from an earlier estimate ([`Estimator::estimate`]).
    ///
    /// # Errors
    ///
    /// An invalid configuration.
    pub fn resume(config: Config, mut known: Estimate, now: Duration) -> Result<Self, ConfigError> {
        known.began_us = microseconds(now);
        Estimator::new(config, known, 0, now).map(Self)
    }

    /// A call begins: its timeout.
    pub fn begin(&mut self, now: Duration) -> Duration {
        self.tick(now);
        self.0.begin()
    }

    /// A call was answered, whatever the answer.
    pub fn answered(&mut self, took: Duration, now: Duration) {
        self.tick(now);
        self.0.answered(took);
    }

    /// A call was cut off after the timeout that [`Self::begin`] gave it.
    pub fn timed_out(&mut self, timeout: Duration, now: Duration) {
        self.tick(now);
        self.0.timed_out(timeout);
    }

    /// A call ended without a sample: refused, cancelled.
    pub fn dropped(&mut self, now: Duration) {
        self.tick(now);
        self.0.dropped();
    }

    /// Closes the interval if it is over. The other calls do so too; without calls there are no samples.
    pub fn tick(&mut self, now: Duration) {
        if self.0.is_due(now) {
            let report = self.0.report(now);
            let mut known = self.0.estimate().clone();
            known.fold(self.0.config(), &report, 0.0, microseconds(now));
            self.0.folded(known);
        }
    }
}

/// Timeout, state and figures are those of its estimator.
impl Deref for AdaptiveTimeout {
    type Target = Estimator;

    fn deref(&self) -> &Estimator {
        &self.0
    }
}

fn microseconds(now: Duration) -> u64 {
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}
