//! The errors of a program's way into Tidegate.

use std::time::Duration;

use crate::{
    error::StoreError,
    request::{RequestError, RequestId, Status},
    schema::MigrateError,
    worker::WorkerError,
};

/// An error of [`Tidegate`](super::Tidegate).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The database refused, or cannot be reached.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The database could not be brought to this version.
    #[error(transparent)]
    Migrate(#[from] MigrateError),
    /// A worker did not start, or has stopped by itself.
    #[error(transparent)]
    Worker(#[from] WorkerError),
    /// A request goes on after the time for which it was waited for.
    #[error("request {id} has not ended within {} s, and goes on: wait again, or get it later", .timeout.as_secs_f64())]
    NotEnded {
        /// The request.
        id: RequestId,
        /// The time.
        timeout: Duration,
    },
    /// A request has no response.
    #[error("request {id} is {status} and has no response{}", reason(.error.as_ref()))]
    NoResponse {
        /// The request.
        id: RequestId,
        /// Its status.
        status: Status,
        /// The error in which it ended.
        error: Option<RequestError>,
    },
    /// A response is of another type.
    #[error("the response of request {id} does not fit the type that it is read as: {source}")]
    ResponseType {
        /// The request.
        id: RequestId,
        /// Why it does not fit.
        source: serde_json::Error,
    },
}

fn reason(error: Option<&RequestError>) -> String {
    error.map_or_else(String::new, |error| format!(": {} ({})", error.message, error.code))
}
