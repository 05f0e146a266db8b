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
/// keeps the answers, and tells every caller when to come back.
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
    /// Write a starter set of limits and nominal times; keeps what is set
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
    /// Hold assertions about policies, keys and rates against what is there
    #[command(subcommand)]
    Contract(contract::Contract),
    /// Hold what requests went through against the rules
    #[command(subcommand)]
    Audit(audit::Audit),
    /// Hold everything that must be so against what is there
    Doctor(doctor::Doctor),
    /// Say in plain words why a request is where it is
    Explain(explain::Explain),
    /// Put lost requests back on their way; safe at any time
    Recover(recover::Recover),
    /// Submit failed or timed-out requests again, as new ones
    Redrive(redrive::Redrive),
    /// Show requests, queues and workers
    Status(status::Status),
    /// Stop claims from a queue, everywhere; what is held goes on
    Pause(pause::Pause),
    /// Resume claims from a queue
    Resume(pause::Resume),
    /// Decide who may be told when requests end, and see who was
    #[command(subcommand)]
    Webhook(webhook::Webhook),
    /// Show it all working: an API node, three workers, a simulated downstream, several hundred requests
    Demo(demo::Demo),
    /// Stop the embedded PostgreSQL when nobody uses it any more
    #[command(hide = true)]
    EmbeddedPostgresKeeper {
        /// The server's directory
        directory: PathBuf,
    },
}

impl Cli {
    /// What is logged unless `RUST_LOG` says otherwise.
    #[must_use]
    pub fn default_log_filter(&self) -> &'static str {
        match self.command {
            Command::Serve(_) => "info",
            _ => "warn",
        }
    }

    /// Runs the command; the exit code is its answer.
    ///
    /// # Errors
    ///
    /// Anything that stops it, in words for people.
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
            Command::Pause(command) => command.run(database).await,
            Command::Resume(command) => command.run(database).await,
            Command::Webhook(command) => command.run(database).await,
            Command::Demo(command) => command.run(database).await,
            Command::EmbeddedPostgresKeeper { directory } => {
                tokio::task::spawn_blocking(move || embedded_postgres::keep(&directory)).await??;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

/// What a command may ask of the database: a person waits for it, and can end it.
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

    /// For a command that does one thing.
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
        if let Some(person) = person() {
            connected.store = connected.store.on_behalf_of(&person);
        }
        Ok(connected)
    }

    /// For a node: its callers are told to come back rather than kept waiting for a connection.
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

/// Whoever runs the command, as the operating system knows them: the history of the configuration names them.
fn person() -> Option<String> {
    let user = nix::unistd::User::from_uid(nix::unistd::getuid()).ok()?;
    user.map(|user| user.name)
}

/// As `println!`; when whoever read our output is gone, there is nobody to go on for.
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
