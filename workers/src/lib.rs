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
#[cfg(test)]
mod testing;

/// Why a text is not the value of an option, and how to write one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(String);

/// The options of a command line with these flags.
fn from_flags<T: clap::Args>(flags: &str) -> T {
    #[derive(clap::Parser)]
    struct CommandLine<T: clap::Args> {
        #[command(flatten)]
        options: T,
    }
    let words = ["x"].into_iter().chain(flags.split_whitespace());
    <CommandLine<T> as clap::Parser>::parse_from(words).options
}
