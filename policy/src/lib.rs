//! Timeouts, retries, backoffs, hedging and breakers by the engine's policies, for other programs.
//!
//! Pure: no database, time from tokio's monotonic clock (P75-1), randomness from the caller. The formulas are those of
//! the seed's chapter 5, and the same as in the database.
//!
//! - [`Backoff`]: the wait before the next attempt, within [0, cap].
//! - [`RetryPolicy`]: attempts, timeout and deadline, and whether they fit; [`serial`] and [`parallel`]: joint bounds.
//! - [`with_timeout`]: a limit of time that code within it can read ([`remaining`]).
//! - [`retry()`](retry): attempts under a policy, for errors that have a class ([`Failure`]).
//! - [`ensure_idempotent`]: one result for all calls of one key.
//! - [`hedge()`](hedge): a second call when the first is slow, within a [`HedgeShare`].
//! - [`adaptive_timeout`]: timeouts that are learned from the answers.
//! - [`Breaker`]: stops calls to a dependency that fails.
//!
//! ```
//! use std::time::Duration;
//! use tidegate_policy::{Backoff, Class, Failure, RetryPolicy, retry};
//! use tokio_util::sync::CancellationToken;
//!
//! struct Unavailable(u16);
//!
//! impl Failure for Unavailable {
//!     fn class(&self) -> Class {
//!         Class::of_status(self.0)
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let policy = RetryPolicy {
//!     attempts: 3,
//!     timeout: Duration::from_millis(200),
//!     backoff: Backoff {
//!         base: Duration::from_millis(10),
//!         jitter: Duration::from_millis(5),
//!         ..Backoff::default()
//!     },
//!     deadline: Duration::from_secs(2),
//!     ..RetryPolicy::default()
//! };
//! // 3 · 200 + (15 + 25) = 640 ms is within 2000 − 1000 ms.
//! policy.check()?;
//! assert_eq!(policy.w_retry(), Duration::from_millis(640));
//!
//! let answer = retry(&policy, &CancellationToken::new(), rand::rng(), |attempt| async move {
//!     if attempt == 1 { Err(Unavailable(503)) } else { Ok(attempt) }
//! })
//! .await;
//! assert!(answer.is_ok_and(|attempts| attempts == 2));
//! # Ok(())
//! # }
//! ```

pub mod adaptive_timeout;
mod backoff;
mod breaker;
mod budget;
mod failure;
mod hedge;
mod idempotency;
mod retry;
#[cfg(test)]
mod testing;
mod timeout;

pub use backoff::Backoff;
pub use breaker::{Breaker, BreakerPolicy, BreakerState, CallEnd, Permit, Refused};
pub use budget::{OverBudget, RetryOn, RetryPolicy, parallel, serial};
pub use failure::{Class, Failure};
pub use hedge::{HedgeShare, Hedged, hedge, hedge_if};
pub use idempotency::{Idempotent, ensure_idempotent};
pub use retry::{AttemptError, RetryError, retry};
pub use timeout::{TimedOut, remaining, with_timeout};
