//! The limits of the API and of connections.

use std::time::Duration;

use clap::Args;
use humantime::parse_duration;

/// The limits of the API, which are options of `tidegate serve`.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Limits")]
pub struct HttpOptions {
    /// The largest request body, in bytes; a larger one gets 413
    #[arg(long, default_value_t = Self::default().body_limit)]
    pub body_limit: usize,
    /// How long a call may take, its body included; a slower one gets 503
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    pub request_timeout: Duration,
    // One more gets 503 at once, because an endless queue only adds delay.
    /// Calls of `/v1` under way at once; one more gets 503
    #[arg(long, default_value_t = Self::default().concurrency_limit)]
    pub concurrency_limit: usize,
    /// The longest that `Prefer: wait` holds an answer back, in seconds; 0: not at all
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = wait_max)]
    pub wait_max: Duration,
    /// The most callers that wait at once, streams included; the next ones are answered at once
    #[arg(long, value_name = "N", default_value_t = Self::default().waiters_max)]
    pub waiters_max: usize,
    /// The most streams of events that are open at once, half of them by one API key; one more gets 503
    #[arg(long, value_name = "N", default_value_t = Self::default().streams_max)]
    pub streams_max: usize,
    /// How long a stream of events stays open; its reader connects again, with its key
    #[arg(long, value_name = "DURATION", default_value = "15m", value_parser = parse_duration)]
    pub stream_time: Duration,
}

fn wait_max(text: &str) -> Result<Duration, &'static str> {
    let seconds = text.parse().ok().filter(|seconds| *seconds <= 86_400);
    seconds.map(Duration::from_secs).ok_or("not a number of seconds from 0 to 86400")
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            body_limit: 1024 * 1024,
            request_timeout: Duration::from_secs(30),
            concurrency_limit: 1024,
            wait_max: Duration::from_secs(60),
            waiters_max: 20_000,
            streams_max: 2000,
            stream_time: Duration::from_secs(15 * 60),
        }
    }
}

/// The limits of connections, which are options of `tidegate serve`.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Limits")]
pub struct ConnectionOptions {
    /// Connections of callers at once; one more gets 503
    #[arg(long, default_value_t = Self::default().connection_limit)]
    pub connection_limit: usize,
    /// The largest head of a request, its headers included, in bytes, at least 8192; a much larger one gets 431
    #[arg(long, default_value_t = Self::default().head_limit)]
    pub head_limit: usize,
    /// How long a connection may take for a request's head, or stay idle between requests: longer than clients and load
    /// balancers keep one, so that no request meets the close
    #[arg(long, value_name = "DURATION", default_value = "120s", value_parser = parse_duration)]
    pub idle_timeout: Duration,
    /// How long a client may stop reading its answer
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    pub write_timeout: Duration,
    /// How long calls under way may take to finish after SIGTERM
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    pub grace: Duration,
}

impl Default for ConnectionOptions {
    fn default() -> Self {
        Self {
            connection_limit: 32_768,
            head_limit: 64 * 1024,
            idle_timeout: Duration::from_secs(120),
            write_timeout: Duration::from_secs(30),
            grace: Duration::from_secs(30),
        }
    }
}
