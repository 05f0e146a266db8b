//! Ready-made stages for Tidegate, run by the `tidegate-worker` binary.

pub mod http_stage;
mod kinds;
pub mod simulate;
