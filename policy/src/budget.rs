//! The longest time that the attempts of a policy can take, and how likely they are to succeed.

use std::{collections::BTreeSet, fmt, time::Duration};

use super::{Backoff, Class, Failure};

#[cfg(test)]
mod tests;

/// How many attempts are made, how far apart, and how long they may take.
///
/// The bound that holds everywhere is
///
/// `W_retry = attempts · timeout + Σ_{k=0}^{attempts−2} min(cap, base · factor^k + jitter)`
///
/// with the jitter inside the minimum, as no wait is longer than the cap. The seed's S75-1, `timeout · (retries + 1) +
/// J_total`, leaves out the sum of the backoffs and counts the jitter apart; its deadline conservation (VI) has the
/// backoffs, and both together are this.
#[derive(Debug, Clone, PartialEq)]
pub struct RetryPolicy {
    /// Attempts in all, the first included; 0 counts as 1.
    pub attempts: u32,
    /// The waits between them.
    pub backoff: Backoff,
    /// The longest that one attempt may take.
    pub timeout: Duration,
    /// The longest that all of it may take.
    pub deadline: Duration,
    /// The part of the deadline that is kept in reserve.
    pub margin: Duration,
    /// Which failures are worth another attempt.
    pub retry_on: RetryOn,
    /// Whether a dependency's own `Retry-After` overrides the backoff.
    pub respect_retry_after: bool,
}

impl Default for RetryPolicy {
    /// Four attempts of 2 s within 30 s, retrying every class but `4xx`; `W_retry` is 12.25 s.
    fn default() -> Self {
        Self {
            attempts: 4,
            backoff: Backoff::default(),
            timeout: Duration::from_secs(2),
            deadline: Duration::from_secs(30),
            margin: Duration::from_secs(1),
            retry_on: RetryOn::default(),
            respect_retry_after: true,
        }
    }
}

impl RetryPolicy {
    /// `W_retry`: the longest time of all attempts and the waits between them, unless a `Retry-After` overrides a wait.
    #[must_use]
    pub fn w_retry(&self) -> Duration {
        let attempts = self.attempts.max(1);
        self.timeout.saturating_mul(attempts).saturating_add(self.backoff.sum_of_bounds(attempts - 1))
    }

    /// The time that `W_retry` must fit in: deadline − margin, zero when the margin is longer.
    #[must_use]
    pub fn budget(&self) -> Duration {
        self.deadline.saturating_sub(self.margin)
    }

    /// Whether the policy can hold: `W_retry ≤ deadline − margin` (P75-2).
    ///
    /// # Errors
    ///
    /// The inequality with its numbers, when it does not hold.
    pub fn check(&self) -> Result<(), OverBudget> {
        if self.w_retry() <= self.budget() { Ok(()) } else { Err(OverBudget(Box::new(self.clone()))) }
    }

    /// The share of requests that succeed when each attempt fails independently with the probability `p_drop`:
    /// `1 − p_drop^attempts` (S75-2).
    #[must_use]
    pub fn p_ok(&self, p_drop: f64) -> f64 {
        1.0 - p_drop.clamp(0.0, 1.0).powf(f64::from(self.attempts.max(1)))
    }

    /// The mean number of attempts of a request with that probability: `Σ_{k=1}^{attempts} p_drop^(k−1)` (S75-3).
    #[must_use]
    pub fn expected_attempts(&self, p_drop: f64) -> f64 {
        let attempts = f64::from(self.attempts.max(1));
        let p_drop = p_drop.clamp(0.0, 1.0);
        if p_drop == 1.0 {
            return attempts;
        }
        // The sum in closed form, in a way that stays exact near 1.
        -(attempts * p_drop.ln()).exp_m1() / (1.0 - p_drop)
    }
}

/// The bound of stages that run one after the other: the sum of their bounds (S75-5).
#[must_use]
pub fn serial(bounds: impl IntoIterator<Item = Duration>) -> Duration {
    bounds.into_iter().fold(Duration::ZERO, Duration::saturating_add)
}

/// The bound of branches that run at the same time: the longest of their bounds (S75-5).
#[must_use]
pub fn parallel(bounds: impl IntoIterator<Item = Duration>) -> Duration {
    bounds.into_iter().max().unwrap_or_default()
}

/// Which failures are retried: classes (`5xx`, `timeout`, `connect`, `throttled`, `unauthorized`, `other`) and the
/// caller's own codes.
/// `!busy` excludes the code `busy` of a class that is listed. A refusal (`4xx`) is not retried even when it is listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryOn(BTreeSet<String>);

impl Default for RetryOn {
    /// Every class but `4xx`.
    fn default() -> Self {
        Self::from_iter(["5xx", "timeout", "connect", "throttled", "unauthorized", "other"])
    }
}

impl<W: Into<String>> FromIterator<W> for RetryOn {
    fn from_iter<I: IntoIterator<Item = W>>(words: I) -> Self {
        Self(words.into_iter().map(Into::into).collect())
    }
}

impl RetryOn {
    /// Whether this failure is worth another attempt.
    #[must_use]
    pub fn lists(&self, failure: &dyn Failure) -> bool {
        let (class, code) = (failure.class(), failure.code());
        let is_listed = self.0.contains(class.name()) || (!code.is_empty() && self.0.contains(code));
        class != Class::Refused && is_listed && !self.0.contains(&format!("!{code}"))
    }
}

/// A policy whose attempts may take longer than its deadline allows; printed as the inequality with its numbers.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub struct OverBudget(
    /// The policy.
    pub Box<RetryPolicy>,
);

impl fmt::Display for OverBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: u32 = 6;
        let attempts = self.0.attempts.max(1);
        write!(
            f,
            "W_retry ≤ deadline − margin does not hold: \
             attempts · timeout + Σ min(cap, base · factor^k + jitter) = {attempts} · {}",
            milliseconds(self.0.timeout)
        )?;
        let waits = attempts - 1;
        for k in 0..waits.min(SHOWN) {
            let opening = if k == 0 { " + (" } else { " + " };
            write!(f, "{opening}{}", milliseconds(self.0.backoff.upper_bound(k)))?;
        }
        if waits > SHOWN {
            write!(f, " + … {waits} waits in all")?;
        }
        write!(
            f,
            "{} = {} ms > {} − {} = {} ms",
            if waits > 0 { ")" } else { "" },
            milliseconds(self.0.w_retry()),
            milliseconds(self.0.deadline),
            milliseconds(self.0.margin),
            milliseconds(self.0.budget())
        )
    }
}

/// A duration in milliseconds, which `{}` prints with the decimals that it needs.
fn milliseconds(duration: Duration) -> f64 {
    duration.as_nanos() as f64 / 1e6
}
