//! A flip of a gate, as the database notifies it.

use serde::Deserialize;

/// The payload of a notification.
#[derive(Debug, Deserialize)]
pub(super) struct Notification {
    queue: Option<String>,
    kind: Option<String>,
    submitter: Option<String>,
    pub(super) signal: Signal,
    pub(super) depth: u32,
    pub(super) epoch: i64,
}

/// What a gate did.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(super) enum Signal {
    TooManyRequests,
    AcceptingRequests,
}

impl Notification {
    /// The name of the gate; `None` unless the payload has exactly one.
    pub(super) fn gate(&self) -> Option<String> {
        match (&self.queue, &self.kind, &self.submitter) {
            (Some(queue), None, None) => Some(queue.clone()),
            (None, Some(kind), None) => Some(format!("kind {kind}")),
            (None, None, Some(submitter)) => Some(format!("submitter {submitter}")),
            _ => None,
        }
    }
}
