//! `tidegate gate`

use std::{collections::BTreeMap, process::ExitCode};

use anyhow::bail;
use clap::{Args, Subcommand};
use serde_json::{json, value::to_raw_value};

use super::{DatabaseArgs, table::table};
use crate::store::GateHold;

#[derive(Debug, Args)]
pub(super) struct Gate {
    #[command(subcommand)]
    action: Option<Action>,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Set a gate's marks
    Set {
        /// The queue
        queue: String,
        /// The depth at which it closes
        #[arg(long, required_unless_present = "low")]
        high: Option<i32>,
        /// The depth at which it opens again
        #[arg(long)]
        low: Option<i32>,
    },
    /// Hold a gate closed, until it is released
    Close {
        /// The queue
        queue: String,
    },
    /// Hold a gate open, until it is released
    Open {
        /// The queue
        queue: String,
    },
    /// Let a gate go by its marks again
    Release {
        /// The queue
        queue: String,
    },
}

impl Gate {
    pub(super) async fn run(self, database: DatabaseArgs) -> anyhow::Result<ExitCode> {
        let connected = database.connect(1).await?;
        let store = &connected.store;
        let (queue, changed) = match self.action {
            None => (None, true),
            Some(Action::Set { queue, high, low }) => {
                if store.gates(Some(&queue)).await?.is_empty() {
                    bail!("there is no queue \"{queue}\"");
                }
                let mut marks = BTreeMap::new();
                for (mark, value) in [("high_water", high), ("low_water", low)] {
                    if let Some(value) = value {
                        marks.insert(format!("{queue}.{mark}"), to_raw_value(&json!(value))?);
                    }
                }
                let changed = store.config_set_many(&marks).await?;
                (Some(queue), !changed.is_empty())
            }
            Some(Action::Close { queue }) => {
                let changed = store.gate_force(&queue, GateHold::Close).await?;
                (Some(queue), changed)
            }
            Some(Action::Open { queue }) => {
                let changed = store.gate_force(&queue, GateHold::Open).await?;
                (Some(queue), changed)
            }
            Some(Action::Release { queue }) => {
                let changed = store.gate_force(&queue, GateHold::Release).await?;
                (Some(queue), changed)
            }
        };

        let gates = store.gates(queue.as_deref()).await?;
        if self.json {
            outln!("{}", serde_json::to_string_pretty(&gates)?);
            return Ok(ExitCode::SUCCESS);
        }
        if !changed {
            outln!("nothing changed: it was so before");
        }
        let rows = gates.into_iter().map(|gate| {
            [
                gate.queue,
                gate.state,
                if gate.forced { "by hand" } else { "by marks" }.to_owned(),
                gate.mode,
                gate.high_water.to_string(),
                gate.low_water.to_string(),
                gate.changed_at.format("%Y-%m-%d %H:%M:%SZ").to_string(),
            ]
        });
        let header = [
            "queue",
            "state",
            "held",
            "mode",
            "high water",
            "low water",
            "changed",
        ];
        outln!("{}", table(header, rows));
        Ok(ExitCode::SUCCESS)
    }
}
