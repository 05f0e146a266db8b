//! Does the manual have every command? `make reference` writes the page that this test compares.

use std::{env, fmt::Write, fs, path::Path};

use clap::{Command, CommandFactory};

#[path = "../../src/cli.rs"]
mod cli;

const BEGINNING: &str = "\
# Commands

`make reference` writes this page from the programs, and a test compares them. [Where to look](reference.md#commands)
leads from each command to its subject. `--database-url` (or `DATABASE_URL`), `--database-url-file` and `--json` of the
first block hold for all commands of `tidegate`.
";

/// A command without what the environment of this test has in its help.
fn without_environment(command: Command) -> Command {
    let command = command.mut_args(|argument| argument.hide_env_values(true));
    command.mut_subcommands(without_environment)
}

/// The help of a command and of those below it, a block each. A global option is in the block of the command that has
/// it, and not in those below.
fn describe(page: &mut String, command: &mut Command, level: &str) {
    let name = command.get_bin_name().unwrap_or(command.get_name()).to_owned();
    let help = command.render_help().to_string();
    let help: Vec<_> = help.lines().map(str::trim_end).collect();
    write!(page, "\n{level} {name}\n\n```text\n{}\n```\n", help.join("\n").trim()).unwrap();
    let global = command.get_arguments().filter(|argument| argument.is_global_set());
    let global: Vec<_> = global.map(|argument| argument.get_id().clone()).collect();
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        if below.get_name() != "help" {
            let mut below = below.clone().mut_args(|argument| {
                let is_of_all = global.contains(argument.get_id());
                argument.hide(is_of_all)
            });
            describe(page, &mut below, "###");
        }
    }
}

#[test]
fn the_manual_has_every_command() {
    let mut page = BEGINNING.to_owned();
    for command in [tidegate_cli::cli::Cli::command().name("tidegate"), cli::Cli::command().name("tidegate-worker")] {
        let mut command = without_environment(command).term_width(110).disable_help_subcommand(true);
        command.build();
        describe(&mut page, &mut command, "##");
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/commands.md");
    match env::var("TIDEGATE_REFERENCE").as_deref() {
        Ok("write") => fs::write(path, page).unwrap(),
        _ => assert_eq!(fs::read_to_string(path).unwrap(), page, "run `make reference`"),
    }
}
