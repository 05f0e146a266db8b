//! One queue of a worker: claims the requests that it can start at once, and starts their calls.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use tidegate_policy::HedgeShare;
use tokio::{
    sync::{Semaphore, mpsc},
    task::JoinSet,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    calls::Call,
    leases::Leases,
    meter::Meter,
    outcome::Report,
    settler::{self, Settler},
    shared::{ServedQueue, Shared, WorkerError},
};
use crate::{
    error::{StoreError, warn_of},
    lock::lock,
    request::{Stage, Status},
    store::{Claimed, Outcome, Settle},
};

/// While a few slots are free, how long to wait for more before claiming for those few.
const GATHER: Duration = Duration::from_millis(3);

/// The least time between two claims of a rate-limited queue: a claim reserves up to 100 ms ahead.
const PACED_PAUSE: Duration = Duration::from_millis(25);

/// The pause of an idle queue after the last claimed request; doubled each time, up to the poll interval.
const IDLE_PAUSE: Duration = Duration::from_millis(2);

/// From this pause on, the database is asked when the next message becomes visible.
const ASK_WHEN: Duration = Duration::from_millis(50);

/// Drains one queue.
pub(super) struct QueueWorker {
    queue: Arc<ServedQueue>,
    /// The kinds that this worker has a stage for; it leaves the others to other workers.
    kinds: Vec<String>,
    /// The calls that may still start.
    slots: Arc<Semaphore>,
    /// The limit on hedges, by kind.
    shares: Mutex<HashMap<String, Arc<HedgeShare>>>,
}

impl QueueWorker {
    pub(super) fn new(shared: &Arc<Shared>, name: String, stage: Stage) -> Self {
        let options = &shared.options;
        let meter = Meter::new(options.metrics.clone(), &name);
        Self {
            queue: Arc::new(ServedQueue {
                leases: Arc::new(Leases::new(name.clone(), options.lease, meter)),
                shared: Arc::clone(shared),
                name,
                stage,
            }),
            kinds: shared.stages.kinds(stage),
            slots: Arc::new(Semaphore::new(options.concurrency)),
            shares: Mutex::default(),
        }
    }

    /// Claims until `stop`; then waits for its calls, within the grace period, and settles their outcomes.
    pub(super) async fn run(self, stop: CancellationToken) -> Result<(), WorkerError> {
        let Shared { store, options, .. } = &*self.queue.shared;
        let (outcomes, outcomes_in) = mpsc::channel(options.concurrency);
        let (wakes, wakes_in) = mpsc::unbounded_channel();
        let waker = tokio::spawn(settler::wake_others(store.clone(), wakes_in));
        let settler = Settler { queue: Arc::clone(&self.queue), wakes, effects: options.batch };
        let settler = tokio::spawn(settler.run(outcomes_in));
        let extender_end = CancellationToken::new();
        let extender = tokio::spawn(Arc::clone(&self.queue.leases).extend_until(store.clone(), extender_end.clone()));

        let mut calls = JoinSet::new();
        let outcome = self.claim_until(&stop, &outcomes, &mut calls).await;

        // A call that has not begun releases its claim; one that runs may end within the grace period.
        let stop_calls = tokio::time::timeout(options.grace, async { while calls.join_next().await.is_some() {} });
        if stop_calls.await.is_err() {
            tracing::warn!(queue.name = self.queue.name, calls = calls.len(), "calls outlasted the grace period");
            let running = self.queue.leases.running();
            calls.shutdown().await;
            if self.queue.stage == Stage::Readiness {
                // A check has no effect: another worker may repeat it at once. A send needs its rescue.
                for lease in running {
                    let _ = outcomes.send(Settle::new(lease, Outcome::Released.into())).await;
                }
            }
        }
        drop(outcomes);
        let _ = settler.await;
        let _ = waker.await;
        extender_end.cancel();
        let _ = extender.await;
        outcome
    }

    async fn claim_until(
        &self,
        stop: &CancellationToken,
        outcomes: &mpsc::Sender<Settle<Report>>,
        calls: &mut JoinSet<()>,
    ) -> Result<(), WorkerError> {
        let options = &self.queue.shared.options;
        let wakeup = self.queue.shared.wakeups.of_queue(&self.queue.name);
        let mut error_pause = Duration::ZERO;
        let mut idle_pause = IDLE_PAUSE;
        let mut ahead = None;
        loop {
            if outcomes.is_closed() {
                return Err(WorkerError::Options("the settler of this queue has stopped".to_owned()));
            }
            let (room, answer) = match ahead.take() {
                Some(ahead) => ahead,
                None => tokio::select! {
                    () = stop.cancelled() => return Ok(()),
                    room = self.room(outcomes) => (room, self.claim(room).await),
                },
            };
            // The set keeps the empty results of ended calls until they are taken.
            while calls.try_join_next().is_some() {}

            let (pause, is_idle) = match answer {
                Ok((claimed, asked_at)) => {
                    error_pause = Duration::ZERO;
                    let count = claimed.len();
                    self.queue.leases.meter.claimed(count);
                    let paced = claimed.iter().any(|claimed| claimed.slot.is_some());
                    // While a full batch starts, the database works on the next one.
                    let more = (self.slots.available_permits() - count).min(options.batch);
                    let next_claim = async {
                        if count == room && more >= room && !paced && !stop.is_cancelled() {
                            ahead = Some((more, self.claim(more).await));
                        }
                    };
                    tokio::join!(next_claim, self.start(claimed, asked_at, stop, outcomes, calls));
                    if count > 0 {
                        idle_pause = if paced { PACED_PAUSE } else { IDLE_PAUSE };
                    }
                    match count {
                        0 => (self.idle_wait(idle_pause).await, true),
                        _ if paced => (PACED_PAUSE, false),
                        // The queue seldom has more: the calls start before it is asked again.
                        _ if count < room => (IDLE_PAUSE, true),
                        _ => continue,
                    }
                }
                // A missing right does not come back by waiting, so the worker ends with the error.
                Err(error @ StoreError::NotPermitted(_)) => return Err(error.into()),
                Err(error) => {
                    error_pause = (error_pause * 2).clamp(Duration::from_millis(100), Duration::from_secs(5));
                    warn_of!(error, queue.name = self.queue.name, pause_ms = error_pause.as_millis(), "cannot claim");
                    (error_pause, false)
                }
            };
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = wakeup.notified(), if is_idle => idle_pause = IDLE_PAUSE,
                () = tokio::time::sleep(pause) => if is_idle { idle_pause = (idle_pause * 2).min(options.poll) },
            }
        }
    }

    /// How many requests could be started now: waits until there is one, and a moment for more while some are being
    /// settled.
    async fn room(&self, outcomes: &mpsc::Sender<Settle<Report>>) -> usize {
        let options = &self.queue.shared.options;
        let wanted = options.batch.min(options.concurrency.div_ceil(4));
        // Only this task takes permits, so a free one stays free.
        drop(self.slots.acquire().await);
        if self.slots.available_permits() < wanted && outcomes.capacity() < outcomes.max_capacity() {
            let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
            drop(tokio::time::timeout(GATHER, self.slots.acquire_many(wanted)).await);
        }
        self.slots.available_permits().min(options.batch)
    }

    async fn claim(&self, room: usize) -> Result<(Vec<Claimed>, Instant), StoreError> {
        let ServedQueue { shared, name, stage, .. } = &*self.queue;
        let Shared { claims, options, .. } = &**shared;
        let asked_at = Instant::now();
        let (kinds, lease) = (Some(self.kinds.as_slice()), options.lease);
        let claimed = claims.claim(*stage, name, &options.name, room, lease, kinds).await?;
        if *stage == Stage::Tx {
            let sending = claimed.iter().map(|claimed| (claimed.request.id, Status::TxInFlight));
            shared.announcer.note(sending);
        }
        Ok((claimed, asked_at))
    }

    /// The pause before another claim from a queue that had nothing to claim: short after a claim, then longer each
    /// time.
    ///
    /// A submission wakes workers only when it finds its queue empty, and of two concurrent ones the second finds the
    /// first: only another claim meets it. The same holds for a message that another transaction has locked.
    async fn idle_wait(&self, pause: Duration) -> Duration {
        if pause < ASK_WHEN {
            return pause;
        }
        let wait = self.queue.shared.claims.claim_wait(&self.queue.name, &self.kinds).await;
        wait.map_or(pause, |wait| wait.clamp(IDLE_PAUSE, pause))
    }

    /// Starts a call for each claimed request.
    async fn start(
        &self,
        claimed: Vec<Claimed>,
        asked_at: Instant,
        stop: &CancellationToken,
        outcomes: &mpsc::Sender<Settle<Report>>,
        calls: &mut JoinSet<()>,
    ) {
        let Shared { timeouts, clock, .. } = &*self.queue.shared;
        let claimed_at = Instant::now();
        let learned = timeouts.of(self.queue.stage, &claimed).await;
        for claimed in claimed {
            let lease = claimed.lease;
            let kind = &claimed.request.kind;
            // There is a permit for each: no more were claimed than were free.
            let Ok(permit) = Arc::clone(&self.slots).acquire_owned().await else {
                break;
            };
            let share = Arc::clone(lock(&self.shares).entry(kind.clone()).or_default());
            let call = Box::new(Call {
                queue: Arc::clone(&self.queue),
                learned: learned.get(kind).cloned(),
                start: claimed.slot.map(|slot| clock.start(slot, asked_at, claimed_at)),
                claimed,
                share,
                stop: stop.clone(),
            });
            let outcomes = outcomes.clone();
            let queue = Arc::clone(&self.queue);
            self.queue.leases.hold(lease, asked_at);
            let running = calls.spawn(async move {
                let settle = call.run().await;
                queue.leases.meter.called(claimed_at);
                // The channel has a place for each slot: the number of outcomes in this process stays bounded.
                let _ = outcomes.send(settle).await;
                drop(permit);
            });
            self.queue.leases.abort_with(lease, running);
        }
    }
}
