//! Writes the man pages and the shell completions of both programs: `cargo run --example pages -- DIRECTORY`.

use std::{env, error::Error, fs, path::PathBuf};

use clap::{CommandFactory, ValueEnum};
use clap_complete::Shell;

#[expect(dead_code, reason = "only its description of the command line is used")]
#[path = "../src/cli.rs"]
mod cli;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = PathBuf::from(env::args().nth(1).ok_or("the directory is missing")?);
    let (pages, completions) = (directory.join("man"), directory.join("completions"));
    fs::create_dir_all(&pages)?;
    fs::create_dir_all(&completions)?;
    for command in [tidegate_cli::cli::Cli::command().name("tidegate"), cli::Cli::command().name("tidegate-worker")] {
        for &shell in Shell::value_variants() {
            clap_complete::generate_to(shell, &mut command.clone(), command.get_name(), &completions)?;
        }
        clap_mangen::generate_to(command, &pages)?;
    }
    Ok(())
}
