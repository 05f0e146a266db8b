//! Why HTTP stages cannot be made.

use crate::ParseError;

/// Why HTTP stages cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum HttpStageError {
    /// URLs that contradict each other, or a header that cannot be sent.
    #[error(transparent)]
    Options(#[from] ParseError),
    /// The machine cannot make an HTTP client.
    #[error("cannot make an HTTP client: {0}")]
    Client(#[source] reqwest::Error),
}
