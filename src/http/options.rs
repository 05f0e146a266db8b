//! The limits of the API.

use std::time::Duration;

/// The limits of the API.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// The largest body, in bytes; a larger one gets 413.
    pub body_limit: usize,
    /// How long one request may take, its body included; a slower one gets 503.
    pub request_timeout: Duration,
    /// How many requests of `/v1` may be under way; one more gets 503 at once, because an endless queue only adds
    /// delay.
    pub concurrency_limit: usize,
    /// Whether calls need an API key even while none exists: for a node that listens beyond loopback.
    pub keys_required: bool,
    /// The longest that an answer is held back for `Prefer: wait`.
    pub wait_max: Duration,
    /// How many may wait, streams included; one more is answered at once.
    pub waiters_max: usize,
    /// How many streams of events may be open; one more gets 503.
    pub streams_max: usize,
    /// How long one stays open; its reader reconnects and is authenticated again.
    pub stream_time: Duration,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            body_limit: 1024 * 1024,
            request_timeout: Duration::from_secs(30),
            concurrency_limit: 1024,
            keys_required: false,
            wait_max: Duration::from_secs(60),
            waiters_max: 20_000,
            streams_max: 2000,
            stream_time: Duration::from_secs(15 * 60),
        }
    }
}
