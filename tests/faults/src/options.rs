//! How long, how hard, and with which seed.

use std::{path::PathBuf, time::Duration};

use humantime::parse_duration;

use crate::{cluster::Replication, mutants::Mutant};

/// The options of a run.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// How long faults are injected
    #[arg(long, default_value = "60s", value_parser = parse_duration)]
    pub time: Duration,

    /// Which faults, when and to whom; the same seed injects the same [default: at random, and printed]
    #[arg(long)]
    pub seed: Option<u64>,

    /// How many requests are submitted in a second
    #[arg(long, value_name = "N", default_value_t = 190, value_parser = clap::value_parser!(u32).range(10..=5000))]
    pub per_second: u32,

    /// How many requests measure the retries before the faults; 0: none
    #[arg(long, value_name = "N", default_value_t = 3000)]
    pub measured: usize,

    /// How long there is no fault after one, on average
    #[arg(long, value_name = "DURATION", default_value = "4s", value_parser = parse_duration)]
    pub pause: Duration,

    /// How long the response to a receipt may take before its request times out
    #[arg(long, value_name = "DURATION", default_value = "90s", value_parser = parse_duration)]
    pub response_timeout: Duration,

    /// How long everything may take to come to rest when no faults are injected any more, besides the response timeout
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_duration)]
    pub rest: Duration,

    /// Inject only this sort of fault, such as `postgres_killed` (repeatable)
    #[arg(long, value_name = "SORT")]
    pub only: Vec<String>,

    /// Put a wrong version of a function into the database: the checker must find what it breaks
    #[arg(long, value_name = "NAME")]
    pub mutant: Option<Mutant>,

    /// Kill the database permanently in the middle of the run, and go on with its synchronous standby
    #[arg(long)]
    pub failover: bool,

    /// The database is a cluster of three servers under Patroni, and most faults are its; `tests/ha/prepare` installs what it
    /// needs
    #[arg(long, value_name = "REPLICATION", requires = "tools", conflicts_with = "failover")]
    pub cluster: Option<Replication>,

    /// Where the programs of a cluster are
    #[arg(long, value_name = "DIRECTORY")]
    pub tools: Option<PathBuf>,

    /// Every process reaches the database through this `PgBouncer` (1.21 or newer), in transaction mode
    #[arg(long, value_name = "PROGRAM", conflicts_with_all = ["failover", "cluster"])]
    pub pooler: Option<PathBuf>,

    /// Run a worker in Python and one in TypeScript beside those in Rust; `tests/foreign_workers/prepare` installs what
    /// they need
    #[arg(long)]
    pub foreign: bool,

    /// Where the cluster and the logs are; kept after the run [default: a temporary directory, kept when something is
    /// wrong]
    #[arg(long)]
    pub directory: Option<PathBuf>,

    /// Where `tidegate`, `tidegate-worker` and `tidegate-faults` are [default: beside this program]
    #[arg(long)]
    pub programs: Option<PathBuf>,

    /// Where the programs of another build are: every second process is one of those
    #[arg(long, value_name = "DIRECTORY")]
    pub beside: Option<PathBuf>,

    /// The functions in the database are those of that build, as after `tidegate migrate --downgrade`
    #[arg(long, requires = "beside")]
    pub their_schema: bool,
}
