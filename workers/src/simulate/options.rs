//! The options of a simulated downstream.

use std::{path::PathBuf, time::Duration};

use super::{Chance, Latency, Lossy, SimulatedKind};

/// How responses name the request they are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum RespondBy {
    /// By the reference of the receipt, as downstreams without job ids do.
    #[default]
    Reference,
    /// By job id; receipts then carry no reference.
    JobId,
}

/// The behaviour of a simulated downstream. The default is one that answers everything at once and never fails.
#[derive(Debug, Clone, PartialEq, clap::Args)]
#[command(next_help_heading = "The simulated downstream")]
pub struct SimulateOptions {
    /// How long a readiness check takes: constant:5ms, uniform:1ms-5ms or lognormal:3.6s,0.35 (median, spread)
    #[arg(long, value_name = "LATENCY", default_value = "0s")]
    pub readiness_latency: Latency,

    /// How long the answer to a send takes
    #[arg(long, value_name = "LATENCY", default_value = "0s")]
    pub send_latency: Latency,

    /// How long after it was taken a request is answered; each share draws its own
    #[arg(long, value_name = "LATENCY", default_value = "0s")]
    pub response_latency: Latency,

    /// How often a check answers "not yet"
    #[arg(long, value_name = "CHANCE", default_value = "0")]
    pub not_yet_rate: Chance,

    /// The Retry-After of a "not yet"; 0s leaves it to the kind's policy
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = humantime::parse_duration)]
    pub not_yet_after: Duration,

    /// How often a check answers "never"
    #[arg(long, value_name = "CHANCE", default_value = "0")]
    pub check_failure_rate: Chance,

    /// How often a send fails with a server error; half of those take the request all the same
    #[arg(long, value_name = "CHANCE", default_value = "0")]
    pub send_error_rate: Chance,

    /// How often a send is taken but never answered
    #[arg(long, value_name = "CHANCE", default_value = "0")]
    pub drop_rate: Chance,

    /// How often sends of this kind get no answer; half of these are taken, and their receipts are missing as often: a
    /// chance for a kind (repeatable)
    #[arg(long, value_name = "KIND=CHANCE")]
    pub lossy: Vec<Lossy>,

    /// How often a send of this kind is answered 503 with a senseless Retry-After: a chance for a kind (repeatable)
    #[arg(long, value_name = "KIND=CHANCE")]
    pub absurd: Vec<Lossy>,

    /// How often a repeated send of a request that was taken is refused
    #[arg(long, value_name = "CHANCE", default_value = "0")]
    pub repeat_reject_rate: Chance,

    /// How often a request is refused permanently
    #[arg(long, value_name = "CHANCE", default_value = "0")]
    pub reject_rate: Chance,

    /// How often the verdict on a proof is "no"
    #[arg(long, value_name = "CHANCE", default_value = "0")]
    pub verdict_reject_rate: Chance,

    /// How often a request that was taken is never answered
    #[arg(long, value_name = "CHANCE", default_value = "0")]
    pub silent_rate: Chance,

    /// Sends per second that the downstream accepts; those beyond are counted as violations and refused
    #[arg(long, value_name = "D", value_parser = per_second)]
    pub rate: Option<f64>,

    /// How many sends it accepts at once, on top of the rate
    #[arg(long, value_name = "B", default_value_t = 1)]
    pub burst: u32,

    /// Readiness checks that it runs at once; those beyond are counted as violations and refused
    #[arg(long, value_name = "C")]
    pub check_concurrency: Option<usize>,

    /// In how many shares a `user_decrypt` is answered
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub shares: u32,

    /// Another kind that it serves, besides those of the example: NAME:FLOW or NAME:decrypt:SHARES (repeatable)
    #[arg(long = "kind", value_name = "NAME:FLOW")]
    pub kinds: Vec<SimulatedKind>,

    /// How responses name the request they are for
    #[arg(long, value_name = "BY", default_value = "reference")]
    pub respond_by: RespondBy,

    /// Seed of the random draws; the n-th draw of a seed is always the same
    #[arg(long)]
    pub seed: Option<u64>,

    /// Append one line of JSON for each event to this file
    #[arg(long, value_name = "FILE")]
    pub event_log: Option<PathBuf>,

    /// The field of payloads that the event log has as the `key` of requests that were taken
    #[arg(long, value_name = "FIELD")]
    pub event_log_key: Option<String>,

    /// Keep requests in memory even when no other option needs it, so that duplicates are counted
    #[arg(long)]
    pub remember: bool,
}

fn per_second(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if f64::is_finite(rate) && rate > 0.0 => Ok(rate),
        _ => Err("write a number of sends per second above 0, such as 20 or 0.5".to_owned()),
    }
}

impl Default for SimulateOptions {
    /// The defaults of the command line.
    fn default() -> Self {
        crate::from_flags("")
    }
}

/// Why a simulated downstream cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum SimulateError {
    /// The chances of two events that exclude each other add up to more than one.
    #[error("{0} and {1} exclude each other, so they cannot add up to more than 1")]
    ChancesBeyondOne(&'static str, &'static str),
    /// The log cannot be written.
    #[error("cannot append to the log {}: {error}", path.display())]
    Log {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
}

impl SimulateOptions {
    /// Whether no option makes one request differ from another, so that no bookkeeping is needed.
    pub(super) fn is_bare(&self) -> bool {
        let without_effect = Self {
            not_yet_after: self.not_yet_after,
            burst: self.burst,
            shares: self.shares,
            kinds: self.kinds.clone(),
            respond_by: self.respond_by,
            seed: self.seed,
            event_log_key: self.event_log_key.clone(),
            ..Self::default()
        };
        *self == without_effect
    }

    pub(super) fn validate(&self) -> Result<(), SimulateError> {
        let refused = |one, other| Err(SimulateError::ChancesBeyondOne(one, other));
        if self.not_yet_rate.get() + self.check_failure_rate.get() > 1.0 {
            return refused("--not-yet-rate", "--check-failure-rate");
        }
        if self.send_error_rate.get() + self.drop_rate.get() > 1.0 {
            return refused("--send-error-rate", "--drop-rate");
        }
        Ok(())
    }
}
