//! The `tidegate` command.

use std::process::ExitCode;

use clap::Parser;
use tidegate_cli::{
    cli::Cli,
    logs::{print_err, with_causes},
};

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    cli.start_logs();
    match cli.run().await {
        Ok(code) => code,
        Err(error) => {
            print_err(format_args!("tidegate: {}", with_causes(&*error)));
            ExitCode::FAILURE
        }
    }
}
