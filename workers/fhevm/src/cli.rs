//! The command line.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// The relayer of the fhEVM gateway, on Tidegate.
///
/// `RUST_LOG` filters the log on standard error. The first SIGTERM or Ctrl-C stops gracefully, the second at once.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Stop the private PostgreSQL server in a directory once no process uses it
    #[command(hide = true)]
    EmbeddedPostgresKeeper {
        /// Where the server is kept
        directory: PathBuf,
    },
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
