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

/// A request of `kind`, for tests.
#[cfg(test)]
fn request(kind: &str) -> tidegate::request::Request {
    tidegate::request::Request {
        id: tidegate::request::RequestId(uuid::Uuid::now_v7()),
        kind: kind.to_owned(),
        payload: serde_json::value::to_raw_value(&serde_json::json!({ "secret": 7 })).unwrap(),
        attempt: 2,
        attempts_max: 3,
        deadline_at: chrono::Utc::now(),
        submitter: None,
        phases: None,
    }
}
