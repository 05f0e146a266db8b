//! The program `tidegate-fhevm`.

mod cli;

use std::process::ExitCode;

use clap::Parser;
use tidegate::embedded_postgres;

use crate::cli::{Cli, Command};

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::EmbeddedPostgresKeeper { directory } => embedded_postgres::keep(&directory),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tidegate-fhevm: {error:#}");
            ExitCode::FAILURE
        }
    }
}
