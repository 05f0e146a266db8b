//! Reports outcomes to the database, a few milliseconds' worth in one statement.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{sync::mpsc, time::Instant};

use super::{
    batch::Batch,
    leases::Leases,
    outcome::{Outcome, Unsettled},
};
use crate::error::warn_of;
use crate::{
    error::StoreError,
    listener::Wakeups,
    news::Announcer,
    request::Stage,
    store::{Lease, Settle, Store},
};

/// How long an outcome waits for company.
const GATHER: Duration = Duration::from_millis(2);

/// How often an effect may find the database away, though the settle before it did not.
const EFFECT_ROUNDS: u32 = 2;

/// The least time between two wake-up calls to other processes.
const WAKE_PAUSE: Duration = Duration::from_millis(50);

/// A request given back unbegun.
pub(super) fn release(lease: Lease) -> Settle<Outcome> {
    Settle::new(lease, Outcome::Release)
}

/// Settles one queue's outcomes.
pub(super) struct Settler {
    store: Store,
    wakeups: Wakeups,
    teller: Announcer,
    queue: String,
    stage: Stage,
    batch: usize,
    leases: Arc<Leases>,
    others: mpsc::UnboundedSender<String>,
    /// How many effects are written in one transaction, by how long the last ones took.
    effects: AtomicUsize,
}

impl Settler {
    #[expect(clippy::too_many_arguments, reason = "each is used once, by name")]
    pub(super) fn new(
        store: Store,
        wakeups: Wakeups,
        teller: Announcer,
        queue: String,
        stage: Stage,
        batch: usize,
        leases: Arc<Leases>,
        others: mpsc::UnboundedSender<String>,
    ) -> Self {
        Self {
            store,
            wakeups,
            teller,
            queue,
            stage,
            batch,
            leases,
            others,
            effects: AtomicUsize::new(batch),
        }
    }

    /// Settles until every sender is gone.
    pub(super) async fn run(self, mut reports: mpsc::Receiver<Settle<Outcome>>) {
        let mut round = Vec::new();
        while reports.recv_many(&mut round, self.batch).await > 0 {
            let gathered = tokio::time::sleep(GATHER);
            tokio::pin!(gathered);
            // Only while other calls are under way is there anybody to wait for.
            while round.len() < self.batch.min(self.leases.count()) {
                let room = self.batch - round.len();
                tokio::select! {
                    () = &mut gathered => break,
                    more = reports.recv_many(&mut round, room) => if more == 0 { break },
                }
            }
            self.settle(&mut round).await;
            round.clear();
        }
    }

    async fn settle(&self, reports: &mut Vec<Settle<Outcome>>) {
        let leases: Vec<_> = reports.iter().map(|report| report.lease).collect();
        let lost = reports.iter().filter(|report| matches!(report.outcome, Outcome::Lost));
        self.leases.meter().lost(lost.count());
        let mut batches = Batch::sort(reports.drain(..));
        while let Some(batch) = batches.pop() {
            let mut parts = batch.in_parts(self.effects.load(Ordering::Relaxed));
            let Some(mut batch) = parts.pop() else {
                continue;
            };
            batches.extend(parts);
            if let Err(why) = self.persist(&mut batch).await {
                batches.extend(batch.instead(&why));
            }
        }
        self.leases.forget(leases);
    }

    /// Settles a batch, again and again while the database is away and the leases hold. What is not settled even so
    /// has to be settled otherwise, unless nothing of the batch is held any more.
    async fn persist(&self, batch: &mut Batch) -> Result<(), Unsettled> {
        let mut pause = Duration::from_millis(50);
        let mut failed_effects = 0;
        loop {
            let began = Instant::now();
            let why = match batch.settle(&self.store, &self.queue).await {
                Ok(settled) => {
                    self.note_effects(batch, began.elapsed());
                    self.leases
                        .meter()
                        .settled(batch.word(), batch.len(), settled.moved.len());
                    if settled.moved.len() < batch.len() {
                        // Others have taken these over, or they were cancelled: nothing to do.
                        let lost = batch.len() - settled.moved.len();
                        tracing::debug!(queue.name = self.queue, lost, "outcomes of requests held no more");
                    }
                    self.wake(&settled.wake);
                    self.teller
                        .note(settled.moved.iter().map(|moved| (moved.id, moved.status)));
                    // A check that has ended frees one of its queue's places, and more may wait for them.
                    if self.stage == Stage::Readiness {
                        self.wakeups.wake_queue(&self.queue);
                    }
                    return Ok(());
                }
                Err(why) => why,
            };
            let error = &why.error;
            if let Some(fits) = why.fits
                && fits < batch.len()
            {
                tracing::warn!(queue.name = self.queue, %error, count = batch.len(), fits, "effects are written in parts");
                self.effects.store(fits, Ordering::Relaxed);
                return Err(why);
            }
            if why.of_effect {
                // The settle got through. If it is the database that went away, it is away in the next round too.
                failed_effects += 1;
                if failed_effects == EFFECT_ROUNDS || !matches!(error, StoreError::Unavailable(_)) {
                    tracing::warn!(queue.name = self.queue, %error, count = batch.len(), "an effect failed");
                    return Err(why);
                }
            } else if !error.is_transient() {
                tracing::error!(queue.name = self.queue, %error, count = batch.len(), "cannot settle");
                return Err(why);
            }
            let before = batch.len();
            batch.retain(|lease| self.leases.holds(lease));
            self.leases.meter().lost(before - batch.len());
            if batch.len() == 0 {
                tracing::warn!(queue.name = self.queue, %error, "leases ran out before their outcomes could be stored");
                return Ok(());
            }
            warn_of!(error, queue.name = self.queue, count = batch.len(), "cannot settle yet");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(2));
        }
    }

    /// From now on, as many effects at once as take a thirty-second of the lease: the keeper of leases waits for that.
    fn note_effects(&self, batch: &Batch, took: Duration) {
        if let Batch::Effects(written) = batch {
            let time = self.leases.length().as_secs_f64() / 32.0;
            // A quotient without end is the largest there is.
            let fits = written.len() as f64 * time / took.as_secs_f64();
            self.effects
                .store((fits as usize).clamp(1, self.batch), Ordering::Relaxed);
        }
    }

    /// Tells the workers of queues that were empty, here and elsewhere.
    fn wake(&self, queues: &[String]) {
        for queue in queues {
            self.wakeups.wake_queue(queue);
            // The caller outlives this settler, so somebody listens.
            let _ = self.others.send(queue.clone());
        }
    }
}

/// Wakes the workers of other processes: the first call goes out at once, those within the next moment together,
/// because every NOTIFY waits for every other at commit. Ends when nobody can call any more.
pub(super) async fn wake_others(store: Store, mut calls: mpsc::UnboundedReceiver<String>) {
    while let Some(first) = calls.recv().await {
        let mut queues = BTreeSet::from([first]);
        while let Ok(queue) = calls.try_recv() {
            queues.insert(queue);
        }
        for queue in queues {
            if let Err(error) = store.wake(&queue).await {
                tracing::debug!(%error, "could not wake other workers");
            }
        }
        tokio::time::sleep(WAKE_PAUSE).await;
    }
}
