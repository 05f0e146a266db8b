//! Settles outcomes, those of a few milliseconds in one statement.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
    time::Duration,
};

use tokio::{sync::mpsc, time::Instant};
use tracing::Span;

use super::{
    batch::{self, Batch},
    outcome::{Report, Unsettled},
    shared::ServedQueue,
    spans,
};
use crate::{
    error::{StoreError, warn_of},
    request::Stage,
    store::{Moved, Settle, Store},
};

/// How long an outcome waits for others.
const GATHER: Duration = Duration::from_millis(2);

/// How many times an effect may find the database unavailable after the settle before it has succeeded.
const EFFECT_ATTEMPTS: u32 = 2;

/// The least time between two notifications to other processes.
const WAKE_PAUSE: Duration = Duration::from_millis(50);

/// Settles one queue's outcomes.
pub(super) struct Settler {
    pub(super) queue: Arc<ServedQueue>,
    /// Queues of other processes' workers to wake.
    pub(super) wakes: mpsc::UnboundedSender<String>,
    /// The number of effects in one transaction; follows the time that the last ones took.
    pub(super) effects: usize,
}

impl Settler {
    /// Settles until every sender is gone.
    pub(super) async fn run(mut self, mut reports: mpsc::Receiver<Settle<Report>>) {
        let batch = self.queue.shared.options.batch;
        let mut round = Vec::new();
        while reports.recv_many(&mut round, batch).await > 0 {
            let gathered = tokio::time::sleep(GATHER);
            tokio::pin!(gathered);
            // Without other calls under way no further outcome can come.
            while round.len() < batch.min(self.queue.leases.count()) {
                let room = batch - round.len();
                tokio::select! {
                    () = &mut gathered => break,
                    more = reports.recv_many(&mut round, room) => if more == 0 { break },
                }
            }
            self.settle(&mut round).await;
            round.clear();
        }
    }

    async fn settle(&mut self, reports: &mut Vec<Settle<Report>>) {
        let leases: Vec<_> = reports.iter().map(|report| report.lease).collect();
        let lost = reports.iter().filter(|report| matches!(report.outcome, Report::Lost));
        self.queue.leases.meter.lost(lost.count());
        let mut batches = batch::sort(reports.drain(..));
        while let Some(batch) = batches.pop() {
            batches.extend(batch::in_parts(batch, self.effects));
            let Some(mut batch) = batches.pop() else { break };
            if let Err(why) = self.persist(&mut batch).await {
                batches.extend(batch::fallback(batch, &why));
            }
        }
        self.queue.leases.forget(leases);
    }

    /// Settles a batch, repeatedly while the database is unavailable and the leases hold. After an error the batch has
    /// to be settled in another way.
    async fn persist(&mut self, batch: &mut Batch) -> Result<(), Unsettled> {
        let mut pause = Duration::from_millis(50);
        let mut failed_effects = 0;
        let _settling = spans::settles(batch);
        loop {
            let began = Instant::now();
            let why = match batch::settle(batch, &self.queue.shared.store, &self.queue.name).await {
                Ok(moved) => {
                    self.note_effects(batch, began.elapsed());
                    self.report(batch, moved);
                    return Ok(());
                }
                Err(why) => why,
            };
            let error = &why.error;
            if let Some(fits) = why.fits
                && fits < batch.len()
            {
                tracing::warn!(queue.name = self.queue.name, %error, count = batch.len(), fits, "effects are written in parts");
                self.effects = fits;
                return Err(why);
            }
            if why.of_effect {
                // The settle has succeeded. If the database has become unavailable, the next round finds the same.
                failed_effects += 1;
                if failed_effects == EFFECT_ATTEMPTS || !matches!(error, StoreError::Unavailable(_)) {
                    tracing::warn!(queue.name = self.queue.name, %error, count = batch.len(), "an effect failed");
                    return Err(why);
                }
            } else if !error.is_transient() {
                tracing::error!(queue.name = self.queue.name, %error, count = batch.len(), "cannot settle");
                return Err(why);
            }
            let before = batch.len();
            batch.retain(|settle| self.queue.leases.holds(&settle.lease));
            self.queue.leases.meter.lost(before - batch.len());
            if batch.is_empty() {
                tracing::warn!(queue.name = self.queue.name, %error, "leases ran out before their outcomes were stored");
                return Ok(());
            }
            warn_of!(error, queue.name = self.queue.name, count = batch.len(), "cannot settle yet");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(2));
        }
    }

    /// Counts a settled batch, wakes workers for its requests, and announces their moves.
    fn report(&self, batch: &Batch, moved: Vec<Moved>) {
        let ServedQueue { shared, name, .. } = &*self.queue;
        let meter = &self.queue.leases.meter;
        let mut ids: HashSet<_> = moved.iter().map(|moved| moved.id.0).collect();
        for settle in batch {
            if ids.remove(&settle.lease.id) {
                meter.settled(settle.outcome.word());
                let _attempt = settle.span.as_ref().map(Span::enter);
                tracing::debug!(request.id = %settle.lease.id, outcome = settle.outcome.word(), "settled");
            }
        }
        if moved.len() < batch.len() {
            // Other workers hold these requests now, or they were cancelled.
            let lost = batch.len() - moved.len();
            meter.lost(lost);
            tracing::debug!(queue.name = name, lost, "outcomes of lost leases were dropped");
        }
        shared.announcer.note(moved.iter().map(|moved| (moved.id, moved.status)));
        for queue in moved.into_iter().filter_map(|moved| moved.wakes).collect::<BTreeSet<_>>() {
            shared.wakeups.wake_queue(&queue);
            // The receiver outlives this settler.
            let _ = self.wakes.send(queue);
        }
        // An ended check frees a place of its queue's concurrency limit.
        if self.queue.stage == Stage::Readiness {
            shared.wakeups.wake_queue(name);
        }
    }

    /// Limits the effects of one transaction to as many as take a thirty-second of the lease: extending a lease waits
    /// for the transaction.
    fn note_effects(&mut self, batch: &Batch, took: Duration) {
        if batch::writes_effects(batch) {
            let time = self.queue.leases.length.as_secs_f64() / 32.0;
            // An infinite quotient becomes the largest number.
            let fits = batch.len() as f64 * time / took.as_secs_f64();
            self.effects = (fits as usize).clamp(1, self.queue.shared.options.batch);
        }
    }
}

/// Wakes the workers of other processes: the first notification at once, those of the next moment together, because
/// each NOTIFY waits for every other at commit. Ends when the senders are gone.
pub(super) async fn wake_others(store: Store, mut queues: mpsc::UnboundedReceiver<String>) {
    while let Some(first) = queues.recv().await {
        let mut woken = BTreeSet::from([first]);
        while let Ok(queue) = queues.try_recv() {
            woken.insert(queue);
        }
        for queue in woken {
            if let Err(error) = store.wake(&queue).await {
                tracing::debug!(%error, "could not wake other workers");
            }
        }
        tokio::time::sleep(WAKE_PAUSE).await;
    }
}
