//! `tidegate recover`

mod summary;
mod waiting;

use std::{process::ExitCode, time::Duration};

use clap::Args;
use humantime::parse_duration;
use serde_json::{Value, json};
use tidegate::internals::store::{Recover as Step, Store};

use self::summary::Summary;
use super::{GlobalArgs, exit_code, next_batch};

/// Requests per transaction, unless the operator names another number.
const BATCH: i32 = 1000;

#[derive(Debug, Default, Args)]
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
        let mut summary =
            Summary { dry_run: self.dry_run, before: store.request_overview().await?, ..Summary::default() };
        if let Some(limit) = self.wait {
            // With --all, a lease of any kind is one that forbids it.
            let kind = self.kind.as_deref().filter(|_| !self.all);
            summary.still_leased = waiting::for_leases(store, kind, limit).await?;
        }
        let options = json!({
            "all": self.all, "force": self.force, "kind": self.kind, "limit": self.limit, "batch": self.batch,
            "wait": self.wait.is_some(),
        });
        let result = self.recorded(store, &options, &mut summary).await;
        // Also after an error: the batches before it are committed.
        if result.is_ok() || summary.is_anything_wrong() {
            summary.after = match store.request_overview().await {
                Err(_) if result.is_err() => Vec::new(),
                after => after?,
            };
            connected.print(&summary, Summary::print)?;
        }
        result?;
        Ok(exit_code(!summary.is_anything_wrong() && summary.still_leased == 0))
    }

    /// The steps, on record unless it is a dry run.
    async fn recorded(&self, store: &Store, options: &Value, summary: &mut Summary) -> anyhow::Result<()> {
        if !self.dry_run {
            summary.run = Some(store.recovery_begins(options).await?);
        }
        let step = Step {
            batch: self.batch,
            dry_run: self.dry_run,
            kind: self.kind.as_deref(),
            reset_all: self.all,
            force: self.force,
            run: summary.run,
        };
        let result = self.steps(store, step, summary).await;
        let closed = match summary.run {
            Some(run) => store.recovery_ends(run).await.map(drop),
            None => Ok(()),
        };
        result?;
        Ok(closed?)
    }

    async fn steps(&self, store: &Store, step: Step<'_>, summary: &mut Summary) -> anyhow::Result<()> {
        summary.storages = store.recover_storage(self.dry_run, summary.run).await?;
        if self.kind.is_some() || self.limit.is_some() {
            return self.lives(store, step, summary).await;
        }
        // Counted at the same time as the rest, because mostly there are none.
        let count = Step { dry_run: true, ..step };
        let (lives, found) = tokio::join!(self.lives(store, step, summary), strays(store, &count));
        lives?;
        summary.strays_removed = match found? {
            found if found == 0 || self.dry_run => found,
            _ => strays(store, &step).await?,
        };
        responses(store, &step, summary).await?;
        summary.gates = store.recover_gates(self.dry_run, summary.run).await?;
        summary.counts = store.recover_counts(self.dry_run, summary.run).await?;
        Ok(())
    }

    /// Live requests, a bounded batch a transaction: deadlines that no sweep finds first, because these requests need no
    /// message any more; then lost claims and lost messages.
    async fn lives(&self, store: &Store, step: Step<'_>, summary: &mut Summary) -> anyhow::Result<()> {
        let mut next = Some(None);
        while let Some(after) = next
            && let Some(batch) = next_batch(self.batch, self.limit, summary.ids.len())
        {
            let done = store.recover_deadlines(&Step { batch, ..step }, after).await?;
            summary.expired += done.expired;
            summary.dated += done.dated;
            summary.ids.extend(done.ids);
            next = done.next_after.map(Some);
        }
        let mut next = Some(None);
        while let Some(after) = next
            && let Some(batch) = next_batch(self.batch, self.limit, summary.ids.len())
        {
            let done = store.recover(&Step { batch, ..step }, after).await?;
            summary.examined += done.examined;
            summary.reset += done.reset;
            summary.ended += done.ended;
            summary.rebuilt += done.rebuilt;
            summary.renumbered += done.renumbered;
            summary.counted += done.counted;
            summary.ids.extend(done.ids);
            next = done.next_after.map(Some);
        }
        Ok(())
    }
}

/// Recovers as `tidegate recover` does without options, for a node that starts. Any number of nodes may do it at once: each
/// repair is made by one of them.
pub(super) async fn at_start(global: GlobalArgs) -> anyhow::Result<()> {
    let recover = Recover { batch: BATCH, ..Recover::default() };
    let mut summary = Summary::default();
    let options = json!({ "batch": BATCH, "at_start": true });
    recover.recorded(&global.connect(2).await?.store, &options, &mut summary).await?;
    tracing::info!(
        recovery.run = summary.run,
        examined = summary.examined,
        repaired = summary.ids.len(),
        "recovered before serving"
    );
    Ok(())
}

/// Removes messages without a live request; returns their number.
async fn strays(store: &Store, step: &Step<'_>) -> anyhow::Result<i64> {
    let mut removed = 0;
    for queue in store.queue_overview().await? {
        let mut next = Some(None);
        while let Some(after) = next {
            let done = store.remove_stray_messages(&queue.queue, step, after).await?;
            removed += done.removed;
            next = done.next_after.map(Some);
        }
    }
    Ok(removed)
}

/// Early responses that can be applied now.
async fn responses(store: &Store, step: &Step<'_>, summary: &mut Summary) -> anyhow::Result<()> {
    loop {
        let done = store.recover_responses(step).await?;
        summary.responses += done.applied;
        if !done.more {
            return Ok(());
        }
    }
}
