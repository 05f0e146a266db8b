//! The command line: one file a command.

/// Prints a line through [`out`].
macro_rules! outln {
    () => { $crate::cli::out(format_args!("")) };
    ($($words:tt)*) => { $crate::cli::out(format_args!($($words)*)) };
}

mod audit;
mod cancel;
mod config;
mod contract;
mod demo;
mod doctor;
mod explain;
mod fail;
mod gate;
mod get;
mod history;
mod init;
mod key;
mod keys;
mod kind;
mod list;
mod migrate;
mod pause;
mod quarantine;
mod queue;
mod recover;
mod redrive;
mod resolve;
mod serve;
mod since;
mod status;
mod submit;
mod table;
mod webhook;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use serde::Serialize;
use tidegate::{
    internals::{database::PoolSettings, store::Store},
    request::RequestId,
};

use self::table::table;
use crate::{
    database_location::{DatabaseArgs, DatabaseLocation},
    embedded_postgres,
    logs::LogArgs,
    traces::Traces,
};

/// A request relay on PostgreSQL: takes requests, checks them, sends them on no faster than the downstream allows,
/// keeps the answers, and gives every caller a Retry-After.
#[derive(Debug, Parser)]
#[command(
    name = "tidegate",
    version,
    propagate_version = true,
    after_help = "Start with `tidegate demo`, or: `tidegate migrate`, `tidegate init`, `tidegate serve`.\n\
                  Without a database URL, a private PostgreSQL is made from this machine's own binaries."
)]
pub struct Cli {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: Command,
}

/// The options of all commands.
#[derive(Debug, Clone, Args)]
struct GlobalArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    #[command(flatten)]
    logs: LogArgs,
    /// Print JSON, if the command prints rows or figures
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Bring the database to this version; harmless to repeat
    Migrate(migrate::Migrate),
    /// Write a starter set of limits and nominal times; values that are set stay
    Init(init::Init),
    /// Show and change limits, times and policies while everything runs
    #[command(subcommand)]
    Config(config::Config),
    /// Make, list and remove kinds
    #[command(subcommand)]
    Kind(kind::Kind),
    /// Make and remove queues; `tidegate status` shows them
    #[command(subcommand)]
    Queue(queue::Queue),
    /// Show whose turns a fair queue serves, and give a submitter or kind a weight, or pause it
    Keys(keys::Keys),
    /// Make, list and revoke API keys
    #[command(subcommand)]
    Key(key::Key),
    /// Show gates, set their marks, set quotas of kinds and submitters, hold gates open or closed by hand
    Gate(gate::Gate),
    /// Serve the HTTP API
    Serve(serve::Serve),
    /// Submit one request
    Submit(submit::Submit),
    /// Show where requests stand, or their results
    Get {
        /// The job ids
        #[arg(required = true)]
        ids: Vec<RequestId>,
    },
    /// List requests by kind, state, submitter, queue and age, newest first; or those that have waited longest
    List(list::List),
    /// Compare assertions about policies, keys and rates with the database
    #[command(subcommand)]
    Contract(contract::Contract),
    /// Compare the histories of requests with the rules
    #[command(subcommand)]
    Audit(audit::Audit),
    /// Search for violations of invariants
    Doctor(doctor::Doctor),
    /// Explain in plain words why a request is where it is
    Explain {
        /// The job id
        id: RequestId,
    },
    /// Make lost messages, counts and gates again from the rows; safe at any time
    Recover(recover::Recover),
    /// Submit failed or timed-out requests again, as new ones
    Redrive(redrive::Redrive),
    /// List requests that ended after a send that may have been executed
    Unresolved(resolve::Unresolved),
    /// Say of such a request whether it was executed
    Resolve(resolve::Resolve),
    /// Show requests, queues and workers
    Status(status::Status),
    /// Show the last day of a kind or a queue by the minute
    History(history::History),
    /// Cancel live requests: those named, or all that a filter lets through
    Cancel(cancel::Cancel),
    /// Fail a live request as an internal error, whatever its status
    Fail(fail::Fail),
    /// Stop claims from a queue, or of a kind, everywhere; held requests go on
    Pause(pause::Queues),
    /// Resume claims from a queue, or of a kind
    Resume(pause::Queues),
    /// Send and deliver nothing from this database any more: for a copy, such as a dump restored into staging
    Quarantine(quarantine::Quarantine),
    /// End a quarantine: this database, and no other copy of it, sends and delivers from now on
    Adopt,
    /// Manage webhooks: hosts, secrets, callbacks and deliveries
    #[command(subcommand)]
    Webhook(webhook::Webhook),
    /// Run a demonstration: an API node, three workers, a simulated downstream, several hundred requests
    Demo(demo::Demo),
    /// Print what a shell completes these commands with: bash, zsh, fish, elvish or powershell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Stop the embedded PostgreSQL when no process uses it any more
    #[command(hide = true)]
    EmbeddedPostgresKeeper {
        /// The server's directory
        directory: PathBuf,
    },
}

impl Cli {
    /// Starts logging, as much as the command needs unless the options say otherwise; and the traces of a node, if the
    /// environment asks for them.
    ///
    /// # Errors
    ///
    /// A variable of the environment about traces is invalid.
    pub fn start_logs(&self) -> anyhow::Result<Traces> {
        let logs = &self.global.logs;
        match self.command {
            Command::Serve(_) => return Traces::start("tidegate", logs, "info"),
            // The schema's own warnings, such as a role that this user may not make.
            Command::Migrate(_) => logs.start("warn,sqlx::postgres::notice=warn"),
            _ => logs.start("warn"),
        }
        Ok(Traces::off())
    }

    /// Runs the command and returns its exit code.
    ///
    /// # Errors
    ///
    /// Any error that stops it, with a message for operators.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let global = self.global;
        match self.command {
            Command::Migrate(command) => command.run(global).await,
            Command::Init(command) => command.run(global).await,
            Command::Config(command) => command.run(global).await,
            Command::Kind(command) => command.run(global).await,
            Command::Queue(command) => command.run(global).await,
            Command::Keys(command) => command.run(global).await,
            Command::Key(command) => command.run(global).await,
            Command::Gate(command) => command.run(global).await,
            Command::Serve(command) => command.run(global).await,
            Command::Submit(command) => command.run(global).await,
            Command::Get { ids } => get::run(global, &ids).await,
            Command::List(command) => command.run(global).await,
            Command::Contract(command) => command.run(global).await,
            Command::Audit(command) => command.run(global).await,
            Command::Doctor(command) => command.run(global).await,
            Command::Explain { id } => explain::run(global, id).await,
            Command::Recover(command) => command.run(global).await,
            Command::Redrive(command) => command.run(global).await,
            Command::Unresolved(command) => command.run(global).await,
            Command::Resolve(command) => command.run(global).await,
            Command::History(command) => command.run(global).await,
            Command::Status(command) => command.run(global).await,
            Command::Cancel(command) => command.run(global).await,
            Command::Fail(command) => command.run(global).await,
            Command::Pause(queues) => queues.set_paused(global, true).await,
            Command::Resume(queues) => queues.set_paused(global, false).await,
            Command::Quarantine(command) => command.run(global).await,
            Command::Adopt => quarantine::adopt(global).await,
            Command::Webhook(command) => command.run(global).await,
            Command::Demo(command) => command.run(global).await,
            Command::Completions { shell } => Ok(completions(shell)),
            Command::EmbeddedPostgresKeeper { directory } => {
                tokio::task::spawn_blocking(move || embedded_postgres::keep(&directory)).await??;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

fn completions(shell: Shell) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "tidegate", &mut script);
    outln!("{}", String::from_utf8_lossy(&script).trim_end());
    ExitCode::SUCCESS
}

/// The longest time of a command's statement: an operator waits for it, and can cancel it.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(300);

/// A store, and the database it is in: the embedded server runs as long as this lives.
struct Connected {
    store: Store,
    location: DatabaseLocation,
    json: bool,
}

impl GlobalArgs {
    /// For a command that runs and ends.
    async fn connect(self, connections_max: u32) -> anyhow::Result<Connected> {
        let settings =
            PoolSettings { connections_max, statement_timeout: STATEMENT_TIMEOUT, ..PoolSettings::default() };
        let mut connected = self.open(&settings).await?;
        let time_limit = STATEMENT_TIMEOUT + Duration::from_secs(5);
        connected.store = connected.store.with_time_limit(time_limit);
        if let Some(user) = user_name() {
            connected.store = connected.store.on_behalf_of(&user);
        }
        Ok(connected)
    }

    async fn open(self, settings: &PoolSettings) -> anyhow::Result<Connected> {
        let json = self.json;
        let location = self.database.locate().await?;
        let store = location.open(settings).await?;
        Ok(Connected { store, location, json })
    }
}

impl Connected {
    /// Prints figures as JSON, or by `print`.
    fn print<T: Serialize>(&self, figures: &T, print: impl FnOnce(&T)) -> anyhow::Result<ExitCode> {
        if self.json {
            return print_json(figures);
        }
        print(figures);
        Ok(ExitCode::SUCCESS)
    }

    /// Prints rows as JSON, or as a table with this header; without rows, prints the sentence `none`.
    fn print_rows<T: Serialize, const N: usize>(
        &self,
        rows: Vec<T>,
        none: &str,
        header: &str,
        cells: impl Fn(T) -> [String; N],
    ) -> anyhow::Result<ExitCode> {
        if self.json {
            return print_json(&rows);
        } else if rows.is_empty() {
            outln!("{none}");
        } else {
            outln!("{}", table(header, rows.into_iter().map(cells)));
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The operating system's name of the user who runs the command, for the history of the configuration.
fn user_name() -> Option<String> {
    let user = nix::unistd::User::from_uid(nix::unistd::getuid()).ok()?;
    user.map(|user| user.name)
}

/// The exit code of a command that has found something wrong or could not do all: 1 stands for an error of its own.
const FINDINGS: u8 = 3;

fn exit_code(nothing_found: bool) -> ExitCode {
    ExitCode::from(if nothing_found { 0 } else { FINDINGS })
}

/// Prints a value as JSON, for `--json`.
fn print_json(value: &impl Serialize) -> anyhow::Result<ExitCode> {
    outln!("{}", serde_json::to_string_pretty(value)?);
    Ok(ExitCode::SUCCESS)
}

/// As `println!`; ends the process when the reader has closed the pipe.
fn out(line: std::fmt::Arguments<'_>) {
    use std::io::Write;

    let written = writeln!(std::io::stdout(), "{line}");
    if let Err(error) = written {
        let closed = error.kind() == std::io::ErrorKind::BrokenPipe;
        std::process::exit(i32::from(!closed));
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Cli;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
