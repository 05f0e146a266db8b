//! Logs: to stderr, filtered by `RUST_LOG`, as JSON when `TIDEGATE_LOG=json`. Metrics: [`metrics`].
//!
//! The reader may go: a collector of logs ends, a pipe is closed. That costs lines, and ends no process.

pub mod metrics;

use std::{
    error::Error,
    fmt::Display,
    io::{Write, stderr, stdout},
};

/// Starts logging. Called once, by binaries.
#[cfg(feature = "cli")]
pub fn start(default_filter: &str) {
    use std::io::IsTerminal;

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
        // A line that cannot be written would be reported on stderr, too, and that panics.
        .log_internal_errors(false)
        .with_writer(stderr)
        .with_ansi(stderr().is_terminal());
    if std::env::var("TIDEGATE_LOG").is_ok_and(|format| format == "json") {
        logs.json().init();
    } else {
        logs.init();
    }
}

/// Writes a line to stdout, such as the address that a parent process waits for.
pub fn print_out(line: impl Display) {
    let _ = writeln!(stdout(), "{line}");
}

/// Writes a line to stderr that is no log, such as the error that ends a program.
pub fn print_err(line: impl Display) {
    let _ = writeln!(stderr(), "{line}");
}

/// An error with its causes, each once: drivers repeat the message of what they wrap.
pub fn with_causes(error: &dyn Error) -> String {
    let mut told = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        if !told.contains(&text) {
            told = format!("{told}: {text}");
        }
        next = cause.source();
    }
    told.replace("error returned from database: ", "")
}

#[cfg(all(test, feature = "cli"))]
mod tests {
    use anyhow::anyhow;

    use super::with_causes;

    #[test]
    fn a_cause_is_told_once() {
        let error = anyhow!("permission denied")
            .context("error returned from database: permission denied")
            .context("error returned from database: permission denied")
            .context("the tables were not made");
        assert_eq!(with_causes(&*error), "the tables were not made: permission denied");
        let error = anyhow!("no such file").context("the key cannot be read");
        assert_eq!(with_causes(&*error), "the key cannot be read: no such file");
    }
}
