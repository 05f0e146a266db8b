//! `tidegate recover`

mod summary;
mod waiting;

use std::{process::ExitCode, time::Duration};

use clap::Args;
use humantime::parse_duration;
use serde_json::json;
use tidegate::internals::recovery::{BATCH, Recovered, Recovery};

use self::summary::Summary;
use super::{GlobalArgs, exit_code};

#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: 0 nothing was wrong, 3 something was (and is repaired, unless --dry-run) or leases outlasted \
                  --wait, 1 error."
)]
pub(super) struct Recover {
    /// Only list what would be done
    #[arg(long)]
    dry_run: bool,
    /// Reset every request in flight, also under a live lease: for a fleet that is known to be down
    #[arg(long)]
    all: bool,
    /// With --all: even though live leases exist; their requests may be sent twice
    #[arg(long, requires = "all")]
    force: bool,
    /// First wait until the leases of requests in flight have run out, or their workers have settled or extended them; no
    /// longer than this, 10 minutes if left out
    #[arg(long, value_name = "LIMIT", conflicts_with = "force", num_args = 0..=1, require_equals = true,
        default_missing_value = "10m", value_parser = parse_duration)]
    wait: Option<Duration>,
    /// Only this kind
    #[arg(long)]
    kind: Option<String>,
    /// Repair this many requests at most
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Requests per transaction
    #[arg(long, default_value_t = BATCH, value_parser = clap::value_parser!(i32).range(1..=100_000))]
    batch: i32,
}

impl Recover {
    pub(super) async fn run(mut self, global: GlobalArgs) -> anyhow::Result<ExitCode> {
        // The HTTP spelling is accepted too.
        self.kind = self.kind.map(|kind| kind.replace('-', "_"));
        let connected = global.connect(2).await?;
        let store = &connected.store;
        let mut summary = Summary { before: store.request_overview().await?, ..Summary::default() };
        if let Some(limit) = self.wait {
            // With --all, a lease of any kind is one that forbids it.
            let kind = self.kind.as_deref().filter(|_| !self.all);
            summary.still_leased = waiting::for_leases(store, kind, limit).await?;
        }
        let options = json!({
            "all": self.all, "force": self.force, "kind": self.kind, "limit": self.limit, "batch": self.batch,
            "wait": self.wait.is_some(),
        });
        let recovery = Recovery {
            dry_run: self.dry_run,
            reset_all: self.all,
            force: self.force,
            kind: self.kind,
            limit: self.limit,
            batch: self.batch,
        };
        let result = recovery.run(store, &options, &mut summary.done).await;
        // Also after an error: the batches before it are committed.
        let is_anything_wrong = summary.done.is_anything_wrong();
        if result.is_ok() || is_anything_wrong {
            summary.after = match store.request_overview().await {
                Err(_) if result.is_err() => Vec::new(),
                after => after?,
            };
            connected.print(&summary, Summary::print)?;
        }
        result?;
        Ok(exit_code(!is_anything_wrong && summary.still_leased == 0))
    }
}

/// Recovers as `tidegate recover` does without options, for a node that starts. Any number of nodes may do it at once: each
/// repair is made by one of them.
pub(super) async fn at_start(global: GlobalArgs) -> anyhow::Result<()> {
    let mut done = Recovered::default();
    let options = json!({ "batch": BATCH, "at_start": true });
    Recovery::default().run(&global.connect(2).await?.store, &options, &mut done).await?;
    tracing::info!(
        recovery.run = done.run,
        examined = done.examined,
        repaired = done.ids.len(),
        "recovered before serving"
    );
    Ok(())
}
