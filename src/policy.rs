//! Policies as a library: what the engine's rows say about timeouts, retries and hedging, for a program of one's own.
//!
//! Pure: no database, time from tokio's monotonic clock (P75-1), randomness from the caller.

mod hedge;

pub use hedge::{HedgeShare, Hedged, hedge, hedge_if};
