//! The command line.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, builder::RangedU64ValueParser};
use humantime::parse_duration;
use reqwest::Url;
use tidegate::internals::worker::WorkerOptions;
use tidegate_cli::{database_location::DatabaseArgs, logs::LogArgs};
use tidegate_workers::{
    http_stage::{AnswerForm, HeaderLine, HttpOptions},
    simulate::SimulateOptions,
};

/// Runs ready-made stages for Tidegate.
///
/// Durations are written with their unit: 200ms, 5s, 1m. The first SIGTERM or Ctrl-C stops gracefully, the second at
/// once.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) logs: LogArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Drain queues with calls to your own HTTP service
    Http {
        #[command(flatten)]
        worker: WorkerFlags,
        #[command(flatten)]
        http: HttpOptions,
    },
    /// Drain queues against a simulated downstream in this process; its statistics are printed at the end
    Simulate {
        #[command(flatten)]
        worker: WorkerFlags,
        #[command(flatten)]
        simulate: SimulateOptions,
    },
    /// Run a simulated downstream that any number of `tidegate-worker http` processes call
    Downstream {
        #[command(flatten)]
        server: ServerFlags,
        #[command(flatten)]
        simulate: SimulateOptions,
    },
    /// Stop the private PostgreSQL server in a directory once no process uses it
    #[command(hide = true)]
    EmbeddedPostgresKeeper {
        /// Where the server is kept
        directory: PathBuf,
    },
}

/// The options of the worker; the defaults are the engine's.
#[derive(Debug, Args)]
#[command(next_help_heading = "The worker")]
pub(crate) struct WorkerFlags {
    #[command(flatten)]
    pub(crate) database: DatabaseArgs,

    /// Where to LISTEN, when the database is reached through a pooler in transaction mode: a direct connection, or a
    /// pooler in session mode [default: the database]
    #[arg(long, value_name = "URL", env = "TIDEGATE_LISTEN_DATABASE_URL", hide_env_values = true)]
    pub(crate) listen_database_url: Option<String>,

    /// A queue to drain (repeatable) [default: those of the kinds that it has stages for]
    #[arg(long = "queue", value_name = "QUEUE")]
    queues: Vec<String>,

    /// The worker's name, in leases and in the list of workers [default: host, process id, random]
    #[arg(long)]
    name: Option<String>,

    /// The lease of a claim; extended while its call runs
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = parse_duration)]
    lease: Duration,

    /// How many requests are claimed at once, at most
    #[arg(long, value_name = "N", default_value_t = WorkerOptions::default().batch, value_parser = at_least_one())]
    batch: usize,

    /// How many calls run at once in each queue, at most
    #[arg(long, value_name = "N", default_value_t = WorkerOptions::default().concurrency, value_parser = at_least_one())]
    concurrency: usize,

    /// How often an idle queue is polled, besides notifications
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse_duration)]
    poll: Duration,

    /// How long running calls may take to end after a stop was asked for
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = parse_duration)]
    grace: Duration,

    /// Serve /metrics on this address, such as 127.0.0.1:9464; with port 0 any free port is taken, and the first line
    /// of output has the address
    #[arg(long, value_name = "ADDRESS", env = "TIDEGATE_METRICS_LISTEN")]
    pub(crate) metrics_listen: Option<SocketAddr>,
}

impl WorkerFlags {
    pub(crate) fn options(&self) -> WorkerOptions {
        let defaults = WorkerOptions::default();
        WorkerOptions {
            name: self.name.clone().unwrap_or(defaults.name),
            queues: self.queues.clone(),
            lease: self.lease,
            batch: self.batch,
            concurrency: self.concurrency,
            poll: self.poll,
            grace: self.grace,
            ..defaults
        }
    }
}

/// Where the simulated downstream listens, and where its responses go.
#[derive(Debug, Args)]
#[command(next_help_heading = "The server")]
pub(crate) struct ServerFlags {
    /// Where to listen; with port 0 any free port is taken, and the first line of output has the address
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    pub(crate) listen: SocketAddr,

    /// Where responses are sent: the relay's address, or the whole URL of its responses; without it there are none
    #[arg(long, value_name = "URL")]
    pub(crate) callback_url: Option<Url>,

    /// What its 2xx are: the response as the body (body), or members reference and response (envelope)
    #[arg(long, value_name = "FORM", default_value = "envelope")]
    pub(crate) answer: AnswerForm,

    /// The same as --check-concurrency: a server has no other
    #[arg(long, value_name = "C", conflicts_with = "check_concurrency")]
    pub(crate) concurrency: Option<usize>,

    /// A header of each callback, such as an API key (repeatable; in the environment: one a line)
    #[arg(
        long = "callback-header",
        value_name = "NAME: VALUE",
        env = "TIDEGATE_CALLBACK_HEADERS",
        hide_env_values = true,
        value_delimiter = '\n'
    )]
    pub(crate) callback_headers: Vec<HeaderLine>,

    /// How long responses may be delivered after a stop was asked for
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    pub(crate) grace: Duration,
}

fn at_least_one() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn command(line: &str) -> Command {
        Cli::try_parse_from(line.split(' ')).unwrap().command
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_defaults_are_those_of_the_engine() {
        let Command::Simulate { worker, simulate } = command("x simulate") else { panic!() };
        let (options, defaults) = (worker.options(), WorkerOptions::default());
        assert!(options.queues.is_empty());
        assert_eq!((options.lease, options.batch), (defaults.lease, defaults.batch));
        assert_eq!(
            (options.concurrency, options.poll, options.grace),
            (defaults.concurrency, defaults.poll, defaults.grace)
        );
        assert_eq!(format!("{simulate:?}"), format!("{:?}", SimulateOptions::default()));

        let line = "x simulate --queue a --queue b --lease 1500ms --concurrency 3 --rate 20 --not-yet-rate 5%";
        let Command::Simulate { worker, simulate } = command(line) else { panic!() };
        let options = worker.options();
        assert_eq!(options.queues, ["a", "b"]);
        assert_eq!((options.lease, options.concurrency), (Duration::from_millis(1500), 3));
        assert_eq!((simulate.rate, simulate.not_yet_rate.get()), (Some(20.0), 0.05));
    }

    #[test]
    fn defaults_of_the_http_options_are_those_of_the_library() {
        let line = "x http --send-url http://a/s --header X:1";
        let Command::Http { http, .. } = command(line) else { panic!() };
        let given = HttpOptions {
            send_urls: vec!["http://a/s".parse().unwrap()],
            headers: vec!["X: 1".parse().unwrap()],
            ..HttpOptions::default()
        };
        assert_eq!(format!("{http:?}"), format!("{given:?}"));
    }
}
