//! A limit of time that code within it can read.

use std::{future::Future, time::Duration};

use tokio::time::{Instant, timeout_at};

use super::{Class, Failure};

tokio::task_local! {
    /// When the innermost limit around the running future is over.
    static ENDS: Instant;
}

/// A future took longer than its limit. It is retried where a policy lists `timeout`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no answer within {limit:?}")]
pub struct TimedOut {
    /// The limit.
    pub limit: Duration,
}

impl Failure for TimedOut {
    fn class(&self) -> Class {
        Class::Timeout
    }

    fn code(&self) -> &'static str {
        "timeout"
    }
}

/// Runs a future for `limit` at most, and for no longer than any `with_timeout` around it has left.
///
/// Code inside may read [`remaining`] and pass it on. When the time is over the future is dropped. Without any time
/// left it is not polled. The clock is tokio's, monotonic (P75-1) and as fine as a millisecond.
///
/// # Errors
///
/// [`TimedOut`] when there was no answer in time.
pub async fn with_timeout<F: Future>(limit: Duration, future: F) -> Result<F::Output, TimedOut> {
    let limit = remaining().map_or(limit, |left| left.min(limit));
    if limit.is_zero() {
        return Err(TimedOut { limit });
    }
    let Some(ends) = Instant::now().checked_add(limit) else {
        // Beyond the range of the clock, so without a limit.
        return Ok(future.await);
    };
    timeout_at(ends, ENDS.scope(ends, future)).await.map_err(|_| TimedOut { limit })
}

/// How much time is left within the [`with_timeout`] around the running future; none outside of any.
///
/// It belongs to the task: a task spawned inside has no limit.
#[must_use]
pub fn remaining() -> Option<Duration> {
    ENDS.try_with(|ends| ends.saturating_duration_since(Instant::now())).ok()
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::time::sleep;

    use super::*;
    use crate::testing::milliseconds;

    #[tokio::test(start_paused = true)]
    async fn an_answer_in_time_is_returned() {
        assert_eq!(with_timeout(milliseconds(5), ready(1)).await, Ok(1));
        let late = async {
            sleep(milliseconds(5)).await;
            2
        };
        assert_eq!(with_timeout(milliseconds(5), late).await, Ok(2), "the very last moment");
        assert_eq!(with_timeout(Duration::MAX, ready(3)).await, Ok(3));
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_answer_is_an_error_with_the_limit() {
        let began = Instant::now();
        let error = with_timeout(milliseconds(250), pending::<()>()).await.unwrap_err();
        assert_eq!(began.elapsed(), milliseconds(250));
        assert_eq!(error.to_string(), "no answer within 250ms");
        assert_eq!((error.class(), error.code()), (Class::Timeout, "timeout"));
    }

    #[tokio::test(start_paused = true)]
    async fn without_time_the_future_is_not_polled() {
        let begun = with_timeout(Duration::ZERO, async { panic!("begun") }).await;
        assert!(begun.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn an_inner_limit_ends_with_the_outer_one() {
        assert_eq!(remaining(), None);
        let seen = with_timeout(milliseconds(100), async {
            sleep(milliseconds(30)).await;
            let outer = remaining();
            let inner = with_timeout(milliseconds(20), async { remaining() }).await;
            let longer = with_timeout(milliseconds(500), async { remaining() }).await;
            let endless = with_timeout(Duration::MAX, async { remaining() }).await;
            (outer, inner, longer, endless, remaining())
        })
        .await;
        let left = Some(milliseconds(70));
        assert_eq!(seen, Ok((left, Ok(Some(milliseconds(20))), Ok(left), Ok(left), left)));
        assert_eq!(remaining(), None);
    }
}
