//! The command line: one file a command.

/// Prints a line through [`out`].
macro_rules! outln {
    () => { $crate::cli::out(format_args!("")) };
    ($($words:tt)*) => { $crate::cli::out(format_args!($($words)*)) };
}

mod audit;
mod config;
mod contract;
mod demo;
mod doctor;
mod explain;
mod gate;
mod get;
mod init;
mod key;
mod migrate;
mod pause;
mod recover;
mod redrive;
mod serve;
mod status;
mod submit;
mod table;
mod webhook;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::Context;
use clap::{Args, Parser, Subcommand};

use crate::{
    config::DatabaseLocation,
    database::{self, PoolSettings},
    embedded_postgres,
    store::Store,
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
    database: DatabaseArgs,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Args)]
struct DatabaseArgs {
    /// The database, such as `postgres://user@host/name`
    #[arg(long, env = "DATABASE_URL", global = true, hide_env_values = true)]
    database_url: Option<String>,
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
    /// Make, list and revoke API keys
    #[command(subcommand)]
    Key(key::Key),
    /// Show gates, set their marks, cap kinds and submitters, hold them open or closed by hand
    Gate(gate::Gate),
    /// Serve the HTTP API
    Serve(serve::Serve),
    /// Submit one request
    Submit(submit::Submit),
    /// Show where a request stands, or its result
    Get(get::Get),
    /// Compare assertions about policies, keys and rates with the database
    #[command(subcommand)]
    Contract(contract::Contract),
    /// Compare the history of requests with the rules
    #[command(subcommand)]
    Audit(audit::Audit),
    /// Look for violations of invariants
    Doctor(doctor::Doctor),
    /// Explain in plain words why a request is where it is
    Explain(explain::Explain),
    /// Make lost messages, counts and gates again from the rows; safe at any time
    Recover(recover::Recover),
    /// Submit failed or timed-out requests again, as new ones
    Redrive(redrive::Redrive),
    /// Show requests, queues and workers
    Status(status::Status),
    /// Stop claims from a queue, everywhere; held requests go on
    Pause(pause::Queues),
    /// Resume claims from a queue
    Resume(pause::Queues),
    /// Manage webhooks: hosts, secrets, callbacks and deliveries
    #[command(subcommand)]
    Webhook(webhook::Webhook),
    /// Run a demonstration: an API node, three workers, a simulated downstream, several hundred requests
    Demo(demo::Demo),
    /// Stop the embedded PostgreSQL when no process uses it any more
    #[command(hide = true)]
    EmbeddedPostgresKeeper {
        /// The server's directory
        directory: PathBuf,
    },
}

impl Cli {
    /// The log filter unless `RUST_LOG` is set.
    #[must_use]
    pub fn default_log_filter(&self) -> &'static str {
        match self.command {
            Command::Serve(_) => "info",
            _ => "warn",
        }
    }

    /// Runs the command and returns its exit code.
    ///
    /// # Errors
    ///
    /// Any error that stops it, with a message for operators.
    pub async fn run(self) -> anyhow::Result<ExitCode> {
        let database = self.database;
        match self.command {
            Command::Migrate(command) => command.run(database).await,
            Command::Init(command) => command.run(database).await,
            Command::Config(command) => command.run(database).await,
            Command::Key(command) => command.run(database).await,
            Command::Gate(command) => command.run(database).await,
            Command::Serve(command) => command.run(database).await,
            Command::Submit(command) => command.run(database).await,
            Command::Get(command) => command.run(database).await,
            Command::Contract(command) => command.run(database).await,
            Command::Audit(command) => command.run(database).await,
            Command::Doctor(command) => command.run(database).await,
            Command::Explain(command) => command.run(database).await,
            Command::Recover(command) => command.run(database).await,
            Command::Redrive(command) => command.run(database).await,
            Command::Status(command) => command.run(database).await,
            Command::Pause(queues) => queues.set_paused(database, true).await,
            Command::Resume(queues) => queues.set_paused(database, false).await,
            Command::Webhook(command) => command.run(database).await,
            Command::Demo(command) => command.run(database).await,
            Command::EmbeddedPostgresKeeper { directory } => {
                tokio::task::spawn_blocking(move || embedded_postgres::keep(&directory)).await??;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

/// The longest time of a command's statement: an operator waits for it, and can cancel it.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(300);

/// A store, and the database it is in: the embedded server runs as long as this lives.
struct Connected {
    store: Store,
    location: DatabaseLocation,
}

impl DatabaseArgs {
    async fn locate(self) -> anyhow::Result<DatabaseLocation> {
        DatabaseLocation::find(self.database_url)
            .await
            .context("there is no database URL, and the embedded PostgreSQL cannot be used")
    }

    /// For a command that runs and ends.
    async fn connect(self, connections_max: u32) -> anyhow::Result<Connected> {
        let settings = PoolSettings {
            connections_max,
            statement_timeout: STATEMENT_TIMEOUT,
            ..PoolSettings::default()
        };
        let mut connected = self.open(&settings).await?;
        connected.store = connected
            .store
            .with_time_limit(STATEMENT_TIMEOUT + Duration::from_secs(5));
        if let Some(user) = user_name() {
            connected.store = connected.store.on_behalf_of(&user);
        }
        Ok(connected)
    }

    /// For a node: its callers get a Retry-After rather than wait long for a connection.
    async fn connect_to_serve(self, connections_max: u32) -> anyhow::Result<Connected> {
        let settings = PoolSettings {
            connections_max,
            acquire_timeout: Duration::from_secs(2),
            ..PoolSettings::default()
        };
        self.open(&settings).await
    }

    async fn open(self, settings: &PoolSettings) -> anyhow::Result<Connected> {
        let location = self.locate().await?;
        let pool = database::connect(&location.url, settings)
            .await
            .context("check the URL (`--database-url` or DATABASE_URL) and that PostgreSQL is running")?;
        let store = Store::new(pool);
        store.check_ready().await?;
        Ok(Connected { store, location })
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
    if nothing_found {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(FINDINGS)
    }
}

/// Prints a value as JSON, for `--json`.
fn print_json(value: &impl serde::Serialize) -> anyhow::Result<ExitCode> {
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
