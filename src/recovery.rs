//! A whole recovery: every step of `tidegate recover`, in bounded batches, on record.

use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use crate::{
    error::Result,
    store::{Recover, Store, WrongCount},
};

/// Requests per transaction, unless an operator names another number.
pub const BATCH: i32 = 1000;

/// What a recovery is to do.
#[derive(Debug, Clone)]
pub struct Recovery {
    /// Only count.
    pub dry_run: bool,
    /// Reset requests under a live lease too.
    pub reset_all: bool,
    /// Even while live leases exist.
    pub force: bool,
    /// Only this kind: then only its live requests.
    pub kind: Option<String>,
    /// Repair this many requests at most, and nothing else.
    pub limit: Option<u32>,
    /// Requests per transaction.
    pub batch: i32,
}

impl Default for Recovery {
    fn default() -> Self {
        Self { dry_run: false, reset_all: false, force: false, kind: None, limit: None, batch: BATCH }
    }
}

/// What was done, or of a dry run would be.
#[derive(Debug, Default, Serialize)]
pub struct Recovered {
    /// Its record; none for a dry run, which leaves none.
    pub run: Option<i64>,
    /// Whether it only counted.
    pub dry_run: bool,
    /// Live requests that were read.
    pub examined: i64,
    /// In flight without a lease: back to processing.
    pub reset: i64,
    /// In flight without a lease, `at_most_once`: ended as `outcome_unknown`.
    pub ended: i64,
    /// Without a message: got one.
    pub rebuilt: i64,
    /// Of these, under a new number.
    pub renumbered: i64,
    /// Not counted at their quotas: counted.
    pub counted: i64,
    /// Past their deadline: ended.
    pub expired: i64,
    /// Without a deadline: got one.
    pub dated: i64,
    /// Messages without a live request: removed.
    pub strays_removed: i64,
    /// Early responses that were applied.
    pub responses: i64,
    /// Gates that were past their mark.
    pub gates: i64,
    /// Counts by kind and status that were wrong.
    pub counts: Vec<WrongCount>,
    /// Queues whose table, counters or free numbers were made.
    pub storages: Vec<String>,
    /// The requests concerned.
    pub ids: Vec<Uuid>,
}

impl Recovered {
    /// Whether anything had to be repaired. A gate that flips is normal.
    #[must_use]
    pub fn is_anything_wrong(&self) -> bool {
        self.reset
            + self.ended
            + self.rebuilt
            + self.counted
            + self.expired
            + self.dated
            + self.strays_removed
            + self.responses
            > 0
            || !self.counts.is_empty()
            || !self.storages.is_empty()
    }

    /// Each figure that is not zero, with a sentence in which `{}` is where "would be " stands of a dry run.
    pub fn figures(&self) -> impl Iterator<Item = (i64, &'static str)> {
        [
            (self.expired, "past their deadline, {}ended"),
            (self.dated, "without a deadline, {}given one"),
            (self.reset, "lost in flight, {}reset to processing"),
            (self.ended, "lost in flight, {}ended as outcome_unknown (at_most_once)"),
            (self.rebuilt, "without a message, {}rebuilt"),
            (self.renumbered, "of these {}renumbered"),
            (self.counted, "not counted at their quotas, {}counted"),
            (self.strays_removed, "messages without a live request, {}removed"),
            (self.responses, "early responses, {}applied"),
            (self.gates, "gates past their mark, {}closed or opened"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
    }
}

impl Recovery {
    /// Runs all steps. The record of the run has `options`; a dry run leaves none. Any number of recoveries may run at
    /// once: each repair is made by one of them.
    ///
    /// # Errors
    ///
    /// Those of the database. `done` has what was committed before.
    pub async fn run(&self, store: &Store, options: &Value, done: &mut Recovered) -> Result<()> {
        done.dry_run = self.dry_run;
        if !self.dry_run {
            done.run = Some(store.recovery_begins(options).await?);
        }
        let result = self.steps(store, done).await;
        let closed = match done.run {
            Some(run) => store.recovery_ends(run).await.map(drop),
            None => Ok(()),
        };
        result?;
        closed
    }

    async fn steps(&self, store: &Store, done: &mut Recovered) -> Result<()> {
        let step = Recover {
            batch: self.batch,
            dry_run: self.dry_run,
            kind: self.kind.as_deref(),
            reset_all: self.reset_all,
            force: self.force,
            run: done.run,
        };
        done.storages = store.recover_storage(self.dry_run, done.run).await?;
        if self.kind.is_some() || self.limit.is_some() {
            return self.lives(store, step, done).await;
        }
        // Counted at the same time as the rest, because mostly there are none.
        let count = Recover { dry_run: true, ..step };
        let (lives, found) = tokio::join!(self.lives(store, step, done), strays(store, &count));
        lives?;
        done.strays_removed = match found? {
            found if found == 0 || self.dry_run => found,
            _ => strays(store, &step).await?,
        };
        responses(store, &step, done).await?;
        done.gates = store.recover_gates(self.dry_run, done.run).await?;
        done.counts = store.recover_counts(self.dry_run, done.run).await?;
        Ok(())
    }

    /// Live requests, a bounded batch a transaction: deadlines that no sweep finds first, because these requests need no
    /// message any more; then lost claims and lost messages.
    async fn lives(&self, store: &Store, step: Recover<'_>, done: &mut Recovered) -> Result<()> {
        let mut next = Some(None);
        while let Some(after) = next
            && let Some(batch) = self.next_batch(done.ids.len())
        {
            let dated = store.recover_deadlines(&Recover { batch, ..step }, after).await?;
            done.expired += dated.expired;
            done.dated += dated.dated;
            done.ids.extend(dated.ids);
            next = dated.next_after.map(Some);
        }
        let mut next = Some(None);
        while let Some(after) = next
            && let Some(batch) = self.next_batch(done.ids.len())
        {
            let repaired = store.recover(&Recover { batch, ..step }, after).await?;
            done.examined += repaired.examined;
            done.reset += repaired.reset;
            done.ended += repaired.ended;
            done.rebuilt += repaired.rebuilt;
            done.renumbered += repaired.renumbered;
            done.counted += repaired.counted;
            done.ids.extend(repaired.ids);
            next = repaired.next_after.map(Some);
        }
        Ok(())
    }

    /// How many requests the next batch may repair; `None`: the limit is reached.
    fn next_batch(&self, repaired: usize) -> Option<i32> {
        next_batch(self.batch, self.limit, repaired)
    }
}

/// The size of the next batch of requests, of which so many are done; `None` when the limit is reached.
#[must_use]
pub fn next_batch(batch: i32, limit: Option<u32>, done: usize) -> Option<i32> {
    let Some(limit) = limit else { return Some(batch) };
    let left = u64::from(limit).saturating_sub(done as u64);
    (left > 0).then(|| i32::try_from(left).map_or(batch, |left| left.min(batch)))
}

/// Removes messages without a live request; returns their number.
async fn strays(store: &Store, step: &Recover<'_>) -> Result<i64> {
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
async fn responses(store: &Store, step: &Recover<'_>, done: &mut Recovered) -> Result<()> {
    loop {
        let applied = store.recover_responses(step).await?;
        done.responses += applied.applied;
        if !applied.more {
            return Ok(());
        }
    }
}
