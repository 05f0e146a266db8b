//! The `tidegate` command.

use std::process::ExitCode;

use clap::Parser;
use tidegate_cli::{
    cli::Cli,
    logs::{print_err, with_causes},
};

#[tokio::main]
async fn main() -> ExitCode {
    match run(Cli::parse()).await {
        Ok(code) => code,
        Err(error) => {
            print_err(format_args!("tidegate: {}", with_causes(&*error)));
            ExitCode::FAILURE
        }
    }
}

async fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    let traces = cli.start_logs()?;
    let ran = cli.run().await;
    traces.end().await;
    ran
}
