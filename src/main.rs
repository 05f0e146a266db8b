//! The `tidegate` command.

use std::process::ExitCode;

use clap::Parser;
use tidegate::cli::Cli;

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    tidegate::telemetry::start(cli.default_log_filter());
    match cli.run().await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("tidegate: {error:#}");
            ExitCode::FAILURE
        }
    }
}
