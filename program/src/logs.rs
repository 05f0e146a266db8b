//! Logs, to stderr.
//!
//! The reader may go: a collector of logs ends, a pipe is closed. That costs lines, and ends no process.

use std::{
    error::Error,
    fmt::Display,
    io::{IsTerminal, Write, stderr, stdout},
};

use tracing::Subscriber;
use tracing_subscriber::{
    EnvFilter, Layer, Registry,
    filter::{FilterExt, FilterFn},
    layer::SubscriberExt,
    registry::LookupSpan,
    util::SubscriberInitExt,
};

/// How a program logs.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Logs")]
pub struct LogArgs {
    /// Which lines are logged on standard error: a level (error, warn, info, debug, trace), or levels by module, such as
    /// `info,tidegate::worker=debug`
    #[arg(long, global = true, value_name = "FILTER", env = "RUST_LOG", value_parser = log_filter)]
    log: Option<String>,

    /// How they are written
    #[arg(long, global = true, env = "TIDEGATE_LOG_FORMAT", default_value = "text", value_parser = ["text", "json"])]
    log_format: String,
}

impl LogArgs {
    /// Starts logging, by the program's own filter unless another is asked for. Called once, by binaries.
    pub fn start(&self, default_filter: &str) {
        tracing_subscriber::registry().with(self.filter(default_filter)).with(self.lines()).init();
    }

    /// As [`start`](Self::start), with another layer. Lines show the spans that `spans` lets through, whatever the filter.
    pub(crate) fn start_with<L>(&self, default_filter: &str, layer: L, spans: FilterFn)
    where
        L: Layer<Registry> + Send + Sync,
    {
        let lines = self.lines().with_filter(self.filter(default_filter).or(spans));
        tracing_subscriber::registry().with(layer).with(lines).init();
    }

    fn filter(&self, default_filter: &str) -> EnvFilter {
        // The store logs an outage of the database; the pool and the server's notices would repeat that for each
        // connection.
        let default_filter = format!("sqlx_core::pool=error,sqlx::postgres::notice=error,{default_filter}");
        let asked = self.log.as_deref().filter(|filter| !filter.is_empty());
        EnvFilter::new(asked.unwrap_or(&default_filter))
    }

    /// Writes lines to stderr.
    fn lines<S>(&self) -> Box<dyn Layer<S> + Send + Sync>
    where
        S: Subscriber + for<'span> LookupSpan<'span>,
    {
        let lines = tracing_subscriber::fmt::layer()
            // A line that cannot be written would be reported on stderr, too, and that panics.
            .log_internal_errors(false)
            .with_writer(stderr)
            .with_ansi(stderr().is_terminal());
        if self.log_format == "json" { lines.json().boxed() } else { lines.boxed() }
    }
}

/// A filter that can be understood, or none.
fn log_filter(text: &str) -> Result<String, tracing_subscriber::filter::ParseError> {
    EnvFilter::builder().parse(text).map(|_| text.to_owned())
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

#[cfg(test)]
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
