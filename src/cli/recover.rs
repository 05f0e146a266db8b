//! `tidegate recover`

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use uuid::Uuid;

use super::{DatabaseArgs, table::table};
use crate::store::{Recover as Step, RequestCount, Store};

/// What `recover` answers when it found something, besides 0 for nothing and 1 for an error of its own.
const SOMETHING_WAS_WRONG: u8 = 3;

#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 nothing was wrong, 3 something was (and is repaired, unless --dry-run), 1 error."
)]
pub(super) struct Recover {
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
    /// Reset every request in flight, also under a live lease: for a fleet that is known to be down
    #[arg(long)]
    all: bool,
    /// With --all: even though live leases exist; their requests may be sent twice
    #[arg(long, requires = "all")]
    force: bool,
    /// Only this kind
    #[arg(long)]
    kind: Option<String>,
    /// Look at this many live requests at most
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Requests per transaction
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(i32).range(1..=100_000))]
    batch: i32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Default, Serialize)]
struct Summary {
    dry_run: bool,
    examined: i64,
    reset: i64,
    ended: i64,
    rebuilt: i64,
    renumbered: i64,
    strays_removed: i64,
    ids: Vec<Uuid>,
    before: Vec<RequestCount>,
    after: Vec<RequestCount>,
}

impl Recover {
    pub(super) async fn run(mut self, database: DatabaseArgs) -> anyhow::Result<ExitCode> {
        // The HTTP spelling is welcome here too.
        self.kind = self.kind.map(|kind| kind.replace('-', "_"));
        let connected = database.connect(2).await?;
        let store = connected.store;
        let mut summary = Summary {
            dry_run: self.dry_run,
            before: store.request_overview().await?,
            ..Summary::default()
        };
        self.requests(&store, &mut summary).await?;
        if self.kind.is_none() && self.limit.is_none() {
            self.strays(&store, &mut summary).await?;
        }
        summary.after = store.request_overview().await?;

        let wrong = summary.reset + summary.ended + summary.rebuilt + summary.strays_removed > 0;
        if self.json {
            outln!("{}", serde_json::to_string_pretty(&summary)?);
        } else {
            print_summary(&summary);
        }
        Ok(if wrong {
            ExitCode::from(SOMETHING_WAS_WRONG)
        } else {
            ExitCode::SUCCESS
        })
    }

    /// Steps 1 and 2, a bounded batch a transaction.
    async fn requests(&self, store: &Store, summary: &mut Summary) -> anyhow::Result<()> {
        let mut after = None;
        loop {
            let left = self.limit.map_or(i64::from(self.batch), |limit| {
                i64::from(limit) - summary.examined
            });
            let batch = self.batch.min(i32::try_from(left).unwrap_or(i32::MAX));
            if batch <= 0 {
                return Ok(());
            }
            let step = store
                .recover(
                    &Step {
                        batch,
                        dry_run: self.dry_run,
                        kind: self.kind.as_deref(),
                        reset_all: self.all,
                        force: self.force,
                    },
                    after,
                )
                .await?;
            summary.examined += step.examined;
            summary.reset += step.reset;
            summary.ended += step.ended;
            summary.rebuilt += step.rebuilt;
            summary.renumbered += step.renumbered;
            summary.ids.extend(step.ids);
            after = step.next_after;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Messages that stand for no live request.
    async fn strays(&self, store: &Store, summary: &mut Summary) -> anyhow::Result<()> {
        for queue in store.queue_overview().await? {
            let mut after = None;
            loop {
                let step = store
                    .remove_strays(&queue.queue, self.batch, after, self.dry_run)
                    .await?;
                summary.strays_removed += step.removed;
                after = step.next_after;
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }
}

fn print_summary(summary: &Summary) {
    let would = if summary.dry_run { "would be " } else { "" };
    outln!("{} live requests examined", summary.examined);
    for (count, what) in [
        (summary.reset, "lost in flight, {}reset to processing"),
        (
            summary.ended,
            "lost in flight, {}ended as outcome_unknown (at_most_once)",
        ),
        (summary.rebuilt, "without a message, {}rebuilt"),
        (summary.renumbered, "of these {}renumbered"),
        (
            summary.strays_removed,
            "messages without a live request, {}removed",
        ),
    ] {
        if count > 0 {
            outln!("{count} {}", what.replace("{}", would));
        }
    }
    for id in summary.ids.iter().take(20) {
        outln!("  {id}");
    }
    if summary.ids.len() > 20 {
        outln!(
            "  … and {} more (--json lists them all)",
            summary.ids.len() - 20
        );
    }

    let mut keys: Vec<_> = summary
        .before
        .iter()
        .chain(&summary.after)
        .map(|count| (count.kind.clone(), count.status.clone()))
        .collect();
    keys.sort();
    keys.dedup();
    let count_of = |counts: &[RequestCount], key: &(String, String)| {
        counts
            .iter()
            .find(|count| (&count.kind, &count.status) == (&key.0, &key.1))
            .map_or(0, |count| count.requests)
            .to_string()
    };
    let rows = keys.iter().map(|key| {
        [
            key.0.clone(),
            key.1.clone(),
            count_of(&summary.before, key),
            count_of(&summary.after, key),
        ]
    });
    outln!("\n{}", table(["kind", "status", "before", "after"], rows));
}
