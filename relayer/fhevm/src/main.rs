//! The program `tidegate-fhevm`.

mod cli;

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use tidegate_cli::{
    embedded_postgres,
    logs::{print_err, with_causes},
};

use crate::cli::{Cli, Command};

fn main() -> ExitCode {
    let Cli { global, command } = Cli::parse();
    let done = match command {
        Command::EmbeddedPostgresKeeper { directory } => embedded_postgres::keep(&directory).map_err(Into::into),
        command => {
            global.logs.start("info");
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
            runtime.context("cannot start the runtime").and_then(|runtime| runtime.block_on(command.run(global)))
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
