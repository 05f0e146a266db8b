//! `tidegate queue`

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;
use tidegate::{internals::store::NewQueue, request::Stage};

use super::{GlobalArgs, kind::Rate};

#[derive(Debug, Subcommand)]
pub(super) enum Queue {
    /// Make a queue, to which kinds may be moved (`tidegate config set KIND.tx_queue QUEUE`)
    ///
    /// Prints the settings that it made. An existing queue stays as it is.
    Add(Add),
    /// Remove a queue that no kind uses and that holds no request
    Remove {
        /// The queue
        name: String,
    },
}

#[derive(Debug, Args)]
pub(super) struct Add {
    /// Its name, in lower snake case
    name: String,
    /// The stage that it serves: tx (sends) or readiness (checks)
    #[arg(long)]
    stage: Stage,
    /// How many sends the fleet makes, such as 20/s, 90/min or 1000/h; no limit unless given
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,
    /// How many readiness checks the fleet has under way; no limit unless given
    #[arg(long, value_name = "N")]
    concurrency: Option<i32>,
    /// The depth at which its gate closes [default: 2000]
    #[arg(long, value_name = "N")]
    high: Option<i32>,
    /// The depth at which it opens again [default: half of the high mark]
    #[arg(long, value_name = "N")]
    low: Option<i32>,
    /// Serve submitters, or kinds, in turns, so that none of them makes the others wait; in order of arrival unless given
    #[arg(long, value_name = "WHOM", value_parser = ["submitter", "kind"])]
    fair_by: Option<String>,
}

impl Queue {
    pub(super) async fn run(self, global: GlobalArgs) -> anyhow::Result<ExitCode> {
        let connected = global.connect(1).await?;
        match self {
            Self::Add(add) => {
                let queue = NewQueue {
                    name: add.name,
                    stage: add.stage,
                    rate: add.rate.map(|Rate(per_second)| per_second),
                    concurrency: add.concurrency,
                    high_water: add.high,
                    low_water: add.low,
                    fair_by: add.fair_by,
                };
                let made = connected.store.queue_add(&queue).await?;
                let none = format!("nothing changed: queue \"{}\" exists, and stays as it is", queue.name);
                connected.print_rows(made, &none, "set for  name  value", |setting| {
                    [setting.subject, setting.name, setting.value]
                })
            }
            Self::Remove { name } => {
                connected.store.queue_remove(&name).await?;
                connected.print(&json!({ "queue": name, "removed": true }), |_| {
                    outln!("removed queue {name}");
                })
            }
        }
    }
}
