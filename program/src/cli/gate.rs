//! `tidegate gate`

use std::{process::ExitCode, time::Duration};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use serde_json::json;
use tidegate::internals::{
    error::StoreError,
    store::{Gate as GateRow, GateHold, QuotaMarks, Store, Watched},
};

use super::{Connected, GlobalArgs, table::time};

#[derive(Debug, Args)]
pub(super) struct Gate {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Set the marks of a queue's gate, or of a quota, which is made if there is none
    ///
    /// Marks that are not given stay. The low mark of a new quota is half of its high mark.
    Set {
        #[command(flatten)]
        which: Which,
        /// The depth at which it closes
        #[arg(long, required_unless_present_any = ["low", "mode"])]
        high: Option<i32>,
        /// The depth at which it opens again
        #[arg(long)]
        low: Option<i32>,
        /// Whether it counts exactly, or trades that for less locking
        #[arg(long, value_parser = ["strict", "soft"])]
        mode: Option<String>,
    },
    /// Remove the quota of a kind or submitter
    Remove(Which),
    /// Hold a gate closed, until it is released
    Close(Which),
    /// Hold a gate open, until it is released
    Open(Which),
    /// Let a gate follow its marks again
    Release(Which),
    /// Show when gates closed and opened, and why, the latest first
    History {
        #[command(flatten)]
        which: Which,
        /// How many changes to show at most
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(i32).range(1..=10_000))]
        limit: i32,
    },
}

/// A gate: a queue's, or a quota.
#[derive(Debug, Args)]
#[group(multiple = false)]
struct Which {
    /// The queue
    queue: Option<String>,
    /// The quota of this kind
    #[arg(long)]
    kind: Option<String>,
    /// The quota of this submitter
    #[arg(long)]
    submitter: Option<String>,
}

impl Which {
    fn named(self) -> Option<Watched> {
        self.queue.map(Watched::Queue).or(self.kind.map(Watched::Kind)).or(self.submitter.map(Watched::Submitter))
    }

    fn one(self) -> anyhow::Result<Watched> {
        self.named().context("no gate is named: give a QUEUE, or --kind KIND or --submitter SUBMITTER")
    }
}

impl Gate {
    pub(super) async fn run(self, global: GlobalArgs) -> anyhow::Result<ExitCode> {
        let connected = global.connect(1).await?;
        let store = &connected.store;
        let (name, changed) = match self.action {
            None => (None, true),
            Some(Action::History { which, limit }) => return history(&connected, which, limit).await,
            Some(Action::Remove(which)) => {
                let name = which.one()?.gate();
                let removed = store.quota_remove(&name).await?;
                return connected.print(&json!({ "name": name, "removed": removed }), |_| match removed {
                    true => outln!("removed the quota of {name}"),
                    false => outln!("nothing changed: there is no quota of {name}"),
                });
            }
            Some(Action::Set { which, high, low, mode }) => {
                let watched = which.one()?;
                let marks = QuotaMarks {
                    high_water: high,
                    low_water: low,
                    mode: mode.map(|mode| if mode == "soft" { "soft" } else { "strict" }),
                };
                let changed = set(store, &watched, marks).await?;
                (Some(watched.gate()), changed)
            }
            Some(Action::Close(which)) => hold(store, which, GateHold::Close).await?,
            Some(Action::Open(which)) => hold(store, which, GateHold::Open).await?,
            Some(Action::Release(which)) => hold(store, which, GateHold::Release).await?,
        };

        let gates = store.gates(name.as_deref()).await?;
        if !changed && !connected.json {
            outln!("nothing changed: the gate had this setting before");
        }
        let header = "gate  state  held  mode  depth  high water  low water  since";
        connected.print_rows(gates, "there is no gate", header, |gate| {
            [
                gate.name,
                gate.state,
                if gate.forced { "by hand" } else { "by marks" }.to_owned(),
                gate.mode,
                gate.depth.to_string(),
                gate.high_water.to_string(),
                gate.low_water.to_string(),
                time(gate.changed_at),
            ]
        })
    }
}

async fn set(store: &Store, watched: &Watched, marks: QuotaMarks) -> anyhow::Result<bool> {
    let gate = store.gates(Some(&watched.gate())).await?.pop();
    let set = match watched {
        Watched::Queue(queue) if gate.is_none() => bail!("there is no queue \"{queue}\""),
        Watched::Queue(queue) => store.gate_set(queue, marks).await.map(|changed| !changed.is_empty()),
        _ => store.quota_set(watched, marks).await,
    };
    match (set, gate.and_then(|gate| contradicted_mark(&gate, marks))) {
        (Err(StoreError::Misuse(message)), Some(why)) => bail!("{message}; {why}"),
        (set, _) => Ok(set?),
    }
}

/// The mark in force that a refused mark contradicts, and how to set both.
fn contradicted_mark(gate: &GateRow, marks: QuotaMarks) -> Option<String> {
    let (high, low) = (gate.high_water, gate.low_water);
    match (marks.high_water, marks.low_water) {
        (Some(new), None) if new <= low => Some(format!("the low mark is {low}; set it as well, with --low")),
        (None, Some(new)) if new >= high => Some(format!("the high mark is {high}; set it as well, with --high")),
        _ => None,
    }
}

async fn hold(store: &Store, which: Which, hold: GateHold) -> anyhow::Result<(Option<String>, bool)> {
    let name = which.one()?.gate();
    let changed = store.gate_force(&name, hold).await?;
    Ok((Some(name), changed))
}

async fn history(connected: &Connected, which: Which, limit: i32) -> anyhow::Result<ExitCode> {
    let name = which.named().map(|watched| watched.gate());
    let changes = connected.store.gate_history(name.as_deref(), limit, None).await?;
    // The history of a quota stays when the quota is removed.
    if let Some(name) = &name
        && changes.is_empty()
        && connected.store.gates(Some(name)).await?.is_empty()
    {
        bail!("there is no gate \"{name}\"");
    }
    let none = match name {
        Some(_) => "this gate has not changed yet",
        None => "no gate has closed yet",
    };
    connected.print_rows(changes, none, "when  gate  signal  depth  why  lasted  who", |change| {
        [
            change.at.format("%Y-%m-%d %H:%M:%S%.3fZ").to_string(),
            change.gate,
            change.signal,
            change.depth.to_string(),
            change.cause,
            span(change.lasted_seconds) + if change.is_current { " so far" } else { "" },
            change.actor,
        ]
    })
}

/// A span of time in its two largest units.
fn span(seconds: f64) -> String {
    let span = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    match span.as_secs() {
        0..60 => format!("{:.1} s", span.as_secs_f64()),
        whole @ 60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        whole @ 3600..86_400 => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
        whole => format!("{} d {} h", whole / 86_400, whole % 86_400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::span;

    #[test]
    fn a_span_has_its_two_largest_units() {
        for (seconds, text) in [
            (0.04, "0.0 s"),
            (59.94, "59.9 s"),
            (60.0, "1 min 0 s"),
            (3725.9, "1 h 2 min"),
            (90_000.0, "1 d 1 h"),
            (-1.0, "0.0 s"),
        ] {
            assert_eq!(span(seconds), text);
        }
    }
}
