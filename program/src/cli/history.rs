//! `tidegate history`

use std::process::ExitCode;

use clap::Args;
use serde_json::json;
use tidegate::internals::store::{KindMinute, QueueMinute};

use super::{
    GlobalArgs, print_json,
    since::Since,
    table::{or_dash, table},
};

const KIND: &str = "minute  completed  failed  timed out  checks  sends  failed sends  retries  p50 ms  p95 ms  p99 ms";
const QUEUE: &str = "minute  depth  drained";

#[derive(Debug, Args)]
#[command(after_help = "Examples: `tidegate history payout`, `tidegate history payout --since 1d --csv >payout.csv`.")]
pub(super) struct History {
    /// A kind or a queue; of a kind that has a queue of its name, both are shown
    name: String,
    /// Since when, of the last day at most: a time, or a length such as 2h
    #[arg(long, value_parser = Since::parse, default_value = "1h")]
    since: Since,
    /// Print comma-separated values, those of a queue if no kind has the name
    #[arg(long)]
    csv: bool,
}

impl History {
    pub(super) async fn run(self, global: GlobalArgs) -> anyhow::Result<ExitCode> {
        let connected = global.connect(1).await?;
        let (store, name) = (&connected.store, &*self.name);
        let since = self.since.at(store).await?;
        let kind = store.kind_history(Some(name), since).await?;
        let queue = store.queue_history(Some(name), since).await?;
        if connected.json {
            return print_json(&json!({ "kind": kind, "queue": queue }));
        }
        if self.csv {
            match &*kind {
                [] => print_csv(QUEUE, queue.iter().map(queue_row)),
                _ => print_csv(KIND, kind.iter().map(kind_row)),
            }
            return Ok(ExitCode::SUCCESS);
        }
        if kind.is_empty() && queue.is_empty() {
            outln!(
                "nothing is known of a kind or queue \"{name}\" in that time; maintenance records each minute when it is over"
            );
        }
        if !kind.is_empty() {
            outln!("kind {name}\n{}", table(KIND, kind.iter().map(kind_row)));
        }
        if !queue.is_empty() {
            outln!("queue {name}\n{}", table(QUEUE, queue.iter().map(queue_row)));
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn kind_row(minute: &KindMinute) -> [String; 11] {
    [
        minute.minute.format("%Y-%m-%dT%H:%MZ").to_string(),
        minute.completed.to_string(),
        minute.failed.to_string(),
        minute.timed_out.to_string(),
        minute.checks.to_string(),
        minute.sends.to_string(),
        minute.failed_sends.to_string(),
        minute.retries.to_string(),
        or_dash(minute.p50_ms),
        or_dash(minute.p95_ms),
        or_dash(minute.p99_ms),
    ]
}

fn queue_row(minute: &QueueMinute) -> [String; 3] {
    [minute.minute.format("%Y-%m-%dT%H:%MZ").to_string(), minute.depth.to_string(), minute.drained.to_string()]
}

/// Times and numbers need no quotes; a value that is missing is empty.
fn print_csv<const N: usize>(header: &str, rows: impl Iterator<Item = [String; N]>) {
    outln!("{}", header.replace("  ", ",").replace(' ', "_"));
    for row in rows {
        outln!("{}", row.map(|cell| if cell == "-" { String::new() } else { cell }).join(","));
    }
}
