//! Ready-made stages for Tidegate, run by the `tidegate-worker` binary.
//!
//! * [`http_stage`]: stages that are HTTP calls to an operator's own service.
//! * [`simulate`]: a downstream that exists only in memory, with latencies, failures and limits, and stages over it.
//! * [`downstream_server`]: the same simulated downstream as an HTTP server, for several worker processes.
//!
//! The crate depends on the engine, never the reverse.

pub mod downstream_server;
pub mod http_stage;
mod kinds;
pub mod simulate;
