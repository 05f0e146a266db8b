//! `tidegate kind`

use std::{process::ExitCode, str::FromStr, time::Duration};

use clap::{
    Args, Subcommand,
    builder::{PossibleValuesParser, TypedValueParser},
};
use humantime::parse_duration;
use tidegate::{
    internals::{
        error::StoreError,
        store::{self, KindRemoval, KindRemove},
    },
    request::Flow,
};

use super::{Connected, GlobalArgs, table::or_dash};
use crate::logs::print_err;

/// The flows by the words of any relay, and by those of the first one.
const FLOWS: [&str; 5] = ["direct", "verdict", "checked", "proof", "decrypt"];

#[derive(Debug, Subcommand)]
pub(super) enum Kind {
    /// Make a kind that takes submissions at once, and those of its queues that are missing
    ///
    /// Prints the settings that it made. An existing kind and existing queues stay as they are; change them with
    /// `tidegate config set` and `tidegate gate set`.
    Add(Add),
    /// Show every kind with its queues and their limits
    List,
    /// Remove a kind that has no requests any more
    ///
    /// Refused while it has any, unless the options say what becomes of them.
    Remove(Remove),
}

#[derive(Debug, Args)]
pub(super) struct Remove {
    /// The kind
    name: String,
    /// Refuse new requests, and wait until the live ones have ended
    #[arg(long)]
    drain: bool,
    /// Delete its ended requests with results, idempotency keys and histories, whatever the retention
    #[arg(long)]
    requests: bool,
    /// Remove the queues, too, that no other kind uses
    #[arg(long)]
    queues: bool,
}

#[derive(Debug, Args)]
pub(super) struct Add {
    /// Its name, in lower case; card-payment is the kind `card_payment`
    name: String,
    /// The statuses that its requests pass through: direct (send, response), verdict (send, verdict) or checked (check,
    /// send, response or shares)
    #[arg(long, value_parser = PossibleValuesParser::new(FLOWS).try_map(|flow| flow.parse::<Flow>()))]
    flow: Flow,
    /// How long the downstream usually takes for an answer, such as 300ms, 30s or 5min: timeouts, attempts, deadlines and
    /// the first ETAs fit that [default: 2s, with sends of 10s at most]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    answers_in: Option<Duration>,
    /// How many sends the fleet makes, such as 20/s, 90/min or 1000/h; no limit unless given
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,
    /// How many readiness checks the fleet has under way; no limit unless given
    #[arg(long, value_name = "N")]
    concurrency: Option<i32>,
    /// How many shares complete a request of flow checked
    #[arg(long, value_name = "N", default_value_t = 1)]
    threshold: i32,
    /// The queue in which its requests wait to be sent [default: one of the kind's name]
    #[arg(long, value_name = "QUEUE")]
    tx_queue: Option<String>,
    /// The queue in which its requests wait for their check [default: one of the kind's name and _readiness]
    #[arg(long, value_name = "QUEUE")]
    readiness_queue: Option<String>,
}

/// Sends per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rate(pub(super) f64);

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (count, unit) = text.split_once('/').unwrap_or((text, "s"));
        let seconds = match unit.trim() {
            "s" => 1.0,
            "min" => 60.0,
            "h" => 3600.0,
            _ => return Err("a rate is a number per s, min or h, such as 20/s or 90/min".to_owned()),
        };
        match count.trim().parse::<f64>() {
            Ok(count) if count.is_finite() => Ok(Self(count / seconds)),
            _ => Err(format!("\"{count}\" is not a number")),
        }
    }
}

impl Add {
    /// The kind as the command line describes it.
    fn kind(self) -> store::Kind {
        let mut kind = store::Kind::new(self.name, self.flow).threshold(self.threshold);
        kind.answers_in = self.answers_in;
        kind.rate = self.rate.map(|Rate(per_second)| per_second);
        kind.concurrency = self.concurrency;
        kind.tx_queue = self.tx_queue;
        kind.readiness_queue = self.readiness_queue;
        kind
    }
}

/// Between two looks at what is left.
const PAUSE: Duration = Duration::from_secs(1);

impl Remove {
    async fn run(self, connected: &Connected) -> anyhow::Result<ExitCode> {
        // The HTTP spelling is accepted too.
        let name = self.name.replace('-', "_");
        let with = KindRemove { drain: self.drain, requests: self.requests, queues: self.queues };
        let (mut live, mut ended, mut refusals) = (None, None, 0);
        let done = loop {
            match connected.store.kind_remove(&name, with).await {
                Ok(done) if done.removed => break done,
                Ok(left) if left.live > 0 => {
                    if live != Some(left.live) {
                        print_err(format_args!(
                            "kind {name} refuses new requests; waits for {} live ones (`tidegate gate release --kind {name}` \
                             takes them again)",
                            left.live
                        ));
                    }
                    live = Some(left.live);
                    tokio::time::sleep(PAUSE).await;
                }
                Ok(left) => {
                    // Another transaction has them locked.
                    if ended.is_some_and(|before| left.ended >= before) {
                        tokio::time::sleep(PAUSE).await;
                    }
                    ended = Some(left.ended);
                }
                // A writer kept its lock for too long.
                Err(error) if matches!(&error, StoreError::Database(_)) && error.is_lock_timeout() && refusals < 30 => {
                    refusals += 1;
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return Err(error.into()),
            }
        };
        connected.print(&done, |done| print_removal(&name, done))
    }
}

fn print_removal(name: &str, done: &KindRemoval) {
    outln!("removed kind {name}");
    for queue in &done.queues_removed {
        outln!("removed queue {queue}");
    }
    for queue in &done.queues_kept {
        outln!("queue {queue} stays: other kinds use it, or it holds messages");
    }
}

impl Kind {
    pub(super) async fn run(self, global: GlobalArgs) -> anyhow::Result<ExitCode> {
        let connected = global.connect(1).await?;
        let store = &connected.store;
        match self {
            Self::Add(add) => {
                let kind = add.kind();
                let made = store.kind_add(&kind).await?;
                let none = format!("nothing changed: kind \"{}\" exists, and stays as it is", kind.name());
                connected.print_rows(made, &none, "set for  name  value", |setting| {
                    [setting.subject, setting.name, setting.value]
                })
            }
            Self::Remove(remove) => remove.run(&connected).await,
            Self::List => {
                let header = "kind  flow  readiness queue  tx queue  threshold  per second  concurrency  paused";
                connected.print_rows(store.kinds(None).await?, "there is no kind", header, |kind| {
                    [
                        kind.name,
                        kind.flow,
                        or_dash(kind.readiness_queue),
                        kind.tx_queue,
                        kind.response_threshold.to_string(),
                        or_dash(kind.per_seconds),
                        or_dash(kind.max_concurrency),
                        or_dash(kind.paused.then_some("yes")),
                    ]
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Rate;

    #[test]
    fn a_rate_is_a_number_per_second_minute_or_hour() {
        for (text, per_second) in [("20/s", 20.0), ("90/min", 1.5), ("1800 / h", 0.5), ("0.25", 0.25)] {
            assert_eq!(text.parse(), Ok(Rate(per_second)), "{text}");
        }
        for text in ["", "/s", "20/day", "fast", "inf/s", "20/s/s"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }
}
