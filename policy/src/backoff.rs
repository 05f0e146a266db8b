//! The wait before the next attempt.

use std::time::Duration;

#[cfg(test)]
mod tests;

/// An exponential backoff with a cap and jitter.
///
/// `delay` is `tidegate_internal.backoff` of the database: the same numbers give the same wait, to the microsecond.
///
/// Source: the seed's chapter 5, VI, whose `min(cap, base · factor^k) + U(-jitter, +jitter)` may leave [0, cap] at both
/// ends; here the sum is kept within.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    /// The wait after the first attempt, before jitter.
    pub base: Duration,
    /// The factor from each wait to the next; 1 makes all of them `base`. It should be at least 1.
    pub factor: f64,
    /// The longest wait, jitter included.
    pub cap: Duration,
    /// The largest random part, which is added or subtracted.
    pub jitter: Duration,
}

impl Default for Backoff {
    /// Half a second, doubled each time up to 5 s, give or take a quarter of a second.
    fn default() -> Self {
        Self {
            base: Duration::from_millis(500),
            factor: 2.0,
            cap: Duration::from_secs(5),
            jitter: Duration::from_millis(250),
        }
    }
}

impl Backoff {
    /// The wait after the `attempt`-th attempt, from 1 (0 counts as 1): `min(cap, base · factor^(attempt-1))` and
    /// `random` times the jitter, kept within [0, cap]. `random` is drawn by the caller from [-1, 1); beyond, it counts
    /// as the nearest of these.
    #[must_use]
    pub fn delay(&self, attempt: u32, random: f64) -> Duration {
        let random = random.clamp(-1.0, 1.0);
        let wait = self.grown(attempt.saturating_sub(1)).min(seconds(self.cap));
        self.within_cap(wait + seconds(self.jitter) * random)
    }

    /// The longest wait after `k + 1` attempts: `min(cap, base · factor^k + jitter)`. No `delay(k + 1, _)` is longer.
    #[must_use]
    pub fn upper_bound(&self, k: u32) -> Duration {
        self.within_cap(self.grown(k) + seconds(self.jitter))
    }

    /// `Σ upper_bound(k)` for the first `waits` waits: those between `waits + 1` attempts.
    #[must_use]
    pub fn sum_of_bounds(&self, waits: u32) -> Duration {
        let mut sum = Duration::ZERO;
        let mut before = None;
        for k in 0..waits {
            let bound = self.upper_bound(k);
            // From here on all waits are equal: they have reached the cap, do not grow, or have shrunk to their least.
            let shrunk = before == Some(bound) && (self.factor < 1.0 || self.factor.is_nan());
            if bound == self.cap || self.base.is_zero() || self.factor == 1.0 || shrunk {
                return sum.saturating_add(bound.saturating_mul(waits - k));
            }
            sum = sum.saturating_add(bound);
            before = Some(bound);
        }
        sum
    }

    /// `base · factor^k` in seconds; infinite where it overflows.
    fn grown(&self, k: u32) -> f64 {
        if self.base.is_zero() {
            // Zero times an infinite power would be NaN.
            return 0.0;
        }
        seconds(self.base) * self.factor.powf(f64::from(k))
    }

    fn within_cap(&self, wait: f64) -> Duration {
        // NaN counts as 0, and a value that no duration can hold is above the cap.
        Duration::try_from_secs_f64(wait.max(0.0)).map_or(self.cap, |wait| wait.min(self.cap))
    }
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}
