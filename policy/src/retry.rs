//! Attempts under a policy.

use std::{future::Future, time::Duration};

use rand::Rng;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::{Failure, OverBudget, RetryPolicy, TimedOut, remaining, with_timeout};

#[cfg(test)]
mod tests;

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AttemptError<E> {
    /// It took longer than the policy's timeout, or than the time that was left.
    #[error("{0}")]
    TimedOut(TimedOut),
    /// The call returned an error.
    #[error("{0}")]
    Failed(E),
}

impl<E: Failure> AttemptError<E> {
    /// Its class, code and `Retry-After`.
    pub fn failure(&self) -> &dyn Failure {
        match self {
            Self::TimedOut(error) => error,
            Self::Failed(error) => error,
        }
    }
}

/// Why [`retry`] gave up.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RetryError<E> {
    /// The policy cannot hold; nothing was called.
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
    /// The last attempt failed in a way that the policy does not retry.
    #[error("attempt {attempts} failed, and is not retried: {last}")]
    NotRetried {
        /// How many attempts were made.
        attempts: u32,
        /// The failure of the last.
        last: AttemptError<E>,
    },
    /// Every attempt failed.
    #[error("all {attempts} attempts failed; the last: {last}")]
    Exhausted {
        /// How many attempts were made.
        attempts: u32,
        /// The failure of the last.
        last: AttemptError<E>,
    },
    /// The wait before the next attempt would have used up the time that was left, so it was not begun.
    #[error("no time for another attempt after {attempts}: a wait of {wait:?}, and {left:?} left")]
    DeadlineExceeded {
        /// How many attempts were made.
        attempts: u32,
        /// The failure of the last; none when there was no time for any.
        last: Option<AttemptError<E>>,
        /// How long the wait would have been: the backoff, or the dependency's `Retry-After`.
        wait: Duration,
        /// How much of deadline − margin was left.
        left: Duration,
    },
    /// The token was cancelled; a call that was running has been dropped.
    #[error("cancelled after {attempts} attempts were begun")]
    Cancelled {
        /// How many attempts were begun.
        attempts: u32,
    },
}

/// Repeats a call under `policy` until it succeeds.
///
/// `call(attempt)`, from 1, is made for each attempt and runs for the policy's timeout at most. A failure is
/// retried when `retry_on` lists it and attempts are left, after the backoff with jitter drawn from `rng`, in whole
/// milliseconds (rounded down: the timer rounds up).
///
/// A failure's own [`retry_after`](Failure::retry_after) overrides the backoff, shorter or longer, when the policy
/// respects it. A wait, whichever it is, that does not end before deadline − margin (or before what an outer
/// [`with_timeout`] has left) is not begun: `DeadlineExceeded` at once. The wait has to fit and to leave something, as
/// in the engine's settles, but not the whole attempt after it, whose timeout is cut to what is left.
///
/// It takes no longer than `W_retry` without a `Retry-After`, and never longer than deadline − margin, except that the
/// timer may be a millisecond late each time, which the margin covers.
///
/// Cancellation takes precedence over retries (P75-6): no further call is begun, the running one is dropped, unless it
/// ends at the same moment; a wait ends.
///
/// # Errors
///
/// [`RetryError`] says why there is no value. A policy over its budget is refused before the first call.
pub async fn retry<T, E, F>(
    policy: &RetryPolicy,
    cancel: &CancellationToken,
    mut rng: impl Rng,
    mut call: impl FnMut(u32) -> F,
) -> Result<T, RetryError<E>>
where
    F: Future<Output = Result<T, E>>,
    E: Failure,
{
    policy.check()?;
    let began = Instant::now();
    let budget = remaining().map_or(policy.budget(), |left| left.min(policy.budget()));
    let budget = whole_milliseconds(budget);
    let mut attempts = 0;
    let mut last = None;
    loop {
        let left = budget.saturating_sub(began.elapsed());
        if left.is_zero() {
            return Err(RetryError::DeadlineExceeded { attempts, last, wait: Duration::ZERO, left });
        }
        let attempt = async {
            attempts += 1;
            with_timeout(policy.timeout.min(left), call(attempts)).await
        };
        let failure = match cancel.run_until_cancelled(attempt).await {
            None => return Err(RetryError::Cancelled { attempts }),
            Some(Ok(Ok(value))) => return Ok(value),
            Some(Ok(Err(error))) => AttemptError::Failed(error),
            Some(Err(error)) => AttemptError::TimedOut(error),
        };
        if !policy.retry_on.lists(failure.failure()) {
            return Err(RetryError::NotRetried { attempts, last: failure });
        }
        if attempts >= policy.attempts {
            return Err(RetryError::Exhausted { attempts, last: failure });
        }

        let wait = failure
            .failure()
            .retry_after()
            .filter(|_| policy.respect_retry_after)
            .unwrap_or_else(|| whole_milliseconds(policy.backoff.delay(attempts, rng.random_range(-1.0..1.0))));
        let left = budget.saturating_sub(began.elapsed());
        if wait >= left {
            return Err(RetryError::DeadlineExceeded { attempts, last: Some(failure), wait, left });
        }
        if !wait.is_zero() && cancel.run_until_cancelled(sleep(wait)).await.is_none() {
            return Err(RetryError::Cancelled { attempts });
        }
        last = Some(failure);
    }
}

fn whole_milliseconds(duration: Duration) -> Duration {
    Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}
