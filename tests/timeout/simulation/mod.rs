//! Callers, their timeouts, and a simulated server: no clock, no I/O, the same every time for a seed.

pub mod checks;
pub mod estimator;
pub mod measured;
pub mod scenario;
pub mod server;

use std::time::Duration;

/// Of the calls, how many may fail.
pub const SLO: f64 = 0.01;

/// The shortest timeout.
pub const MIN: Duration = Duration::from_millis(1);

/// How long an interval of ours is, at most.
pub const INTERVAL: Duration = Duration::from_secs(5);

/// The longest timeouts that are tried.
pub const LONGEST: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(100)];
