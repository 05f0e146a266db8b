//! Logs: to stderr, filtered by `RUST_LOG`, as JSON when `TIDEGATE_LOG=json`. Metrics: [`metrics`].

pub mod metrics;

/// Starts logging. Called once, by binaries.
#[cfg(feature = "cli")]
pub fn start(default_filter: &str) {
    use std::io::{IsTerminal, stderr};

    use tracing_subscriber::EnvFilter;

    // The store logs an outage of the database; the pool and the server's notices would repeat that for each
    // connection.
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| {
        EnvFilter::new(format!(
            "sqlx_core::pool=error,sqlx::postgres::notice=error,{default_filter}"
        ))
    });
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(stderr)
        .with_ansi(stderr().is_terminal());
    if std::env::var("TIDEGATE_LOG").is_ok_and(|format| format == "json") {
        logs.json().init();
    } else {
        logs.init();
    }
}
