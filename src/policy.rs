//! Policies as a library: what the engine's rows say about timeouts, retries and hedging, for a program of one's own.
//!
//! Pure: no database, time from tokio's monotonic clock (P75-1), randomness from the caller.

mod backoff;
mod breaker;
mod budget;
mod failure;
mod hedge;
mod idempotency;
mod retry;
mod timeout;

pub use backoff::Backoff;
pub use breaker::{Breaker, BreakerPolicy, BreakerState, CallEnd, Permit, Refused};
pub use budget::{OverBudget, RetryOn, RetryPolicy, parallel, serial};
pub use failure::{Class, Failure};
pub use hedge::{HedgeShare, Hedged, hedge, hedge_if};
pub use idempotency::{Idempotent, ensure_idempotent};
pub use retry::{AttemptError, RetryError, retry};
pub use timeout::{TimedOut, remaining, with_timeout};
