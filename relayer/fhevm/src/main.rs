//! The program `tidegate-fhevm`.

mod cli;

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use tidegate_cli::{
    embedded_postgres,
    logs::{print_err, with_causes},
    traces::Traces,
};

use crate::cli::{Cli, Command, GlobalArgs};

fn main() -> ExitCode {
    let Cli { global, command } = Cli::parse();
    let done = match command {
        Command::EmbeddedPostgresKeeper { directory } => embedded_postgres::keep(&directory).map_err(Into::into),
        command => {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
            runtime.context("cannot start the runtime").and_then(|runtime| runtime.block_on(run(command, global)))
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            print_err(format_args!("tidegate-fhevm: {}", with_causes(&*error)));
            ExitCode::FAILURE
        }
    }
}

async fn run(command: Command, global: GlobalArgs) -> anyhow::Result<()> {
    let traces = match &command {
        Command::Serve(_) | Command::Work(_) => Traces::start("tidegate-fhevm", &global.logs, "info")?,
        _ => {
            global.logs.start("info");
            Traces::off()
        }
    };
    let ran = command.run(global).await;
    traces.end().await;
    ran
}
