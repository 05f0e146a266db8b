//! One queue of a worker: claims what it can start at once, and starts it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
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
    WorkerError, WorkerOptions,
    calls::{Call, Handler},
    database_clock::DatabaseClock,
    leases::Leases,
    meter::Meter,
    outcome::Outcome,
    settler::{self, Settler},
    timeouts::Timeouts,
};
use crate::error::warn_of;
use crate::{
    error::StoreError,
    listener::Wakeups,
    news::Announcer,
    request::{Stage, Status},
    stage::Stages,
    store::{Claimed, Settle, Store},
};

/// While a few slots are free, how long to wait for more before claiming for those few.
const GATHER: Duration = Duration::from_millis(3);

/// The least time between two claims of a rate-limited queue: a claim reserves up to 100 ms ahead.
const PACED_PAUSE: Duration = Duration::from_millis(25);

/// How long after the last work a queue is looked at again, at first; doubled each time, up to the poll interval.
const LULL: Duration = Duration::from_millis(2);

/// Above this lull, the database is asked when something comes due.
const ASK_WHEN: Duration = Duration::from_millis(50);

/// Drains one queue.
pub(super) struct QueueWorker {
    store: Store,
    stages: Stages,
    options: WorkerOptions,
    wakeups: Wakeups,
    teller: Announcer,
    timeouts: Arc<Timeouts>,
    clock: Arc<DatabaseClock>,
    queue: String,
    stage: Stage,
    /// Those that it has a stage for; others are left to other workers.
    kinds: Vec<String>,
    meter: Meter,
    /// What hedges may add, by kind.
    shares: Mutex<HashMap<String, Arc<HedgeShare>>>,
}

/// What the worker has in hand: what it may start, what it holds, what runs, and where its outcomes go.
struct InHand {
    slots: Arc<Semaphore>,
    leases: Arc<Leases>,
    outcomes: mpsc::Sender<Settle<Outcome>>,
    calls: JoinSet<()>,
}

/// What a round of claiming says about the next one.
enum Next {
    /// There may be more.
    Now,
    /// The rate limit is reached.
    Paced,
    /// Nothing can be claimed for this long, unless the queue's bell rings.
    Idle(Duration),
}

impl QueueWorker {
    #[expect(clippy::too_many_arguments, reason = "each is used once, by name")]
    pub(super) fn new(
        store: Store,
        stages: Stages,
        options: WorkerOptions,
        wakeups: Wakeups,
        teller: Announcer,
        timeouts: Arc<Timeouts>,
        clock: Arc<DatabaseClock>,
        queue: String,
        stage: Stage,
    ) -> Self {
        Self {
            meter: Meter::new(options.metrics.clone(), &queue),
            kinds: stages.kinds(stage),
            store,
            stages,
            options,
            wakeups,
            teller,
            timeouts,
            clock,
            queue,
            stage,
            shares: Mutex::default(),
        }
    }

    /// Claims until `stop`; then waits for its calls, within the grace period, and settles what they said.
    pub(super) async fn run(self, stop: CancellationToken) -> Result<(), WorkerError> {
        let leases = Arc::new(Leases::new(self.queue.clone(), self.options.lease, self.meter.clone()));
        let (outcomes, outcomes_in) = mpsc::channel(self.options.concurrency);
        let (others, others_calls) = mpsc::unbounded_channel();
        let waker = tokio::spawn(settler::wake_others(self.store.clone(), others_calls));
        let settler = tokio::spawn(
            Settler::new(
                self.store.clone(),
                self.wakeups.clone(),
                self.teller.clone(),
                self.queue.clone(),
                self.stage,
                self.options.batch,
                Arc::clone(&leases),
                others,
            )
            .run(outcomes_in),
        );
        let keeper_end = CancellationToken::new();
        let keeper = tokio::spawn(Arc::clone(&leases).keep(self.store.clone(), keeper_end.clone()));

        let mut hand = InHand {
            slots: Arc::new(Semaphore::new(self.options.concurrency)),
            leases,
            outcomes,
            calls: JoinSet::new(),
        };
        let outcome = self.claim_until(&stop, &mut hand).await;
        let InHand {
            leases,
            outcomes,
            mut calls,
            ..
        } = hand;

        // What has not begun sees the stop and gives itself back; what runs may go on for a while.
        let stop_calls = tokio::time::timeout(self.options.grace, async { while calls.join_next().await.is_some() {} });
        if stop_calls.await.is_err() {
            tracing::warn!(
                queue.name = self.queue,
                calls = calls.len(),
                "calls outlasted the grace period"
            );
            let running = leases.running();
            calls.shutdown().await;
            if self.stage == Stage::Readiness {
                // A check has no effect: others may begin it anew at once. A send has to be looked for first.
                for lease in running {
                    let _ = outcomes.send(settler::release(lease)).await;
                }
            }
        }
        drop(outcomes);
        let _ = settler.await;
        let _ = waker.await;
        keeper_end.cancel();
        let _ = keeper.await;
        outcome
    }

    async fn claim_until(&self, stop: &CancellationToken, hand: &mut InHand) -> Result<(), WorkerError> {
        let bell = self.wakeups.of_queue(&self.queue);
        let mut trouble = Duration::ZERO;
        let mut lull = LULL;
        let mut ahead = None;
        loop {
            if hand.outcomes.is_closed() {
                return Err(WorkerError::Options(
                    "what settles this queue has broken down".to_owned(),
                ));
            }
            let (room, answer) = match ahead.take() {
                Some(ahead) => ahead,
                None => tokio::select! {
                    () = stop.cancelled() => return Ok(()),
                    room = self.room(hand) => (room, self.claim(room).await),
                },
            };
            // Calls that have ended leave their result here; it is empty, but takes memory.
            while hand.calls.try_join_next().is_some() {}

            let next = match answer {
                Ok((claimed, asked_at)) => {
                    trouble = Duration::ZERO;
                    let count = claimed.len();
                    self.meter.claimed(count);
                    let paced = claimed.iter().any(|claimed| claimed.slot.is_some());
                    // While a full batch starts, the database works on the next one.
                    let more = (hand.slots.available_permits() - count).min(self.options.batch);
                    let next_claim = async {
                        if count == room && more >= room && !paced && !stop.is_cancelled() {
                            ahead = Some((more, self.claim(more).await));
                        }
                    };
                    tokio::join!(next_claim, self.start(claimed, asked_at, stop, hand));
                    if count > 0 {
                        lull = if paced { PACED_PAUSE } else { LULL };
                    }
                    match count {
                        0 => self.idle(lull).await,
                        _ if paced => Next::Paced,
                        _ => Next::Now,
                    }
                }
                // A missing right does not come back by waiting, so the worker ends with the error.
                Err(error @ StoreError::NotPermitted(_)) => return Err(error.into()),
                Err(error) => {
                    trouble = (trouble * 2).clamp(Duration::from_millis(100), Duration::from_secs(5));
                    warn_of!(
                        error,
                        queue.name = self.queue,
                        pause_ms = trouble.as_millis(),
                        "cannot claim"
                    );
                    tokio::select! {
                        () = stop.cancelled() => return Ok(()),
                        () = tokio::time::sleep(trouble) => {}
                    }
                    Next::Now
                }
            };
            match next {
                Next::Now => {}
                Next::Paced => tokio::select! {
                    () = stop.cancelled() => return Ok(()),
                    () = tokio::time::sleep(PACED_PAUSE) => {}
                },
                Next::Idle(wait) => tokio::select! {
                    () = stop.cancelled() => return Ok(()),
                    () = bell.notified() => lull = LULL,
                    () = tokio::time::sleep(wait) => lull = (lull * 2).min(self.options.poll),
                },
            }
        }
    }

    /// How many requests could be started now: waits until there is one, and a moment for more when some are just being
    /// settled.
    async fn room(&self, hand: &InHand) -> usize {
        let InHand { slots, outcomes, .. } = hand;
        let wanted = self.options.batch.min(self.options.concurrency.div_ceil(4));
        // Only this task takes permits, so what is free now stays free.
        drop(slots.acquire().await);
        if slots.available_permits() < wanted && outcomes.capacity() < outcomes.max_capacity() {
            let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
            drop(tokio::time::timeout(GATHER, slots.acquire_many(wanted)).await);
        }
        slots.available_permits().min(self.options.batch)
    }

    async fn claim(&self, room: usize) -> Result<(Vec<Claimed>, Instant), StoreError> {
        let asked_at = Instant::now();
        let claimed = self
            .store
            .claim(
                self.stage,
                &self.queue,
                &self.options.name,
                room,
                self.options.lease,
                Some(&self.kinds),
            )
            .await?;
        if self.stage == Stage::Tx {
            let sending = claimed.iter().map(|claimed| claimed.request.id);
            self.teller.note(sending.map(|id| (id, Status::TxInFlight)));
        }
        Ok((claimed, asked_at))
    }

    /// What hedges of a kind may add, whichever of its requests they are for.
    fn share(&self, kind: &str) -> Arc<HedgeShare> {
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = shares.get(kind) {
            return Arc::clone(share);
        }
        let share = Arc::new(HedgeShare::default());
        shares.insert(kind.to_owned(), Arc::clone(&share));
        share
    }

    /// When to look again at a queue that had nothing to claim: soon after there was something, ever more rarely after.
    ///
    /// A submission rings only when it finds its queue empty, and of two that are made at once the second finds the
    /// first: it is met by looking again. What is locked by somebody else at this moment is met in the same way.
    async fn idle(&self, lull: Duration) -> Next {
        if lull < ASK_WHEN {
            return Next::Idle(lull);
        }
        match self.store.claim_wait(&self.queue, &self.kinds).await {
            Ok(wait) => Next::Idle(wait.clamp(LULL, lull)),
            Err(_) => Next::Idle(lull),
        }
    }

    /// Starts a call for each claimed request.
    async fn start(&self, claimed: Vec<Claimed>, asked_at: Instant, stop: &CancellationToken, hand: &mut InHand) {
        let claimed_at = Instant::now();
        let learned = self.timeouts.of(self.stage, &claimed).await;
        for claimed in claimed {
            let lease = claimed.lease;
            let Some(handler) = Handler::of(&self.stages, self.stage, &claimed.request.kind) else {
                // A claim hands out none of these.
                tracing::error!(request = %claimed.request.id, kind = claimed.request.kind, "claimed without a stage for it");
                let _ = hand.outcomes.send(settler::release(lease)).await;
                continue;
            };
            // There is a permit for each: no more were claimed than were free.
            let Ok(permit) = Arc::clone(&hand.slots).acquire_owned().await else {
                break;
            };
            let share = self.share(&claimed.request.kind);
            let learned = learned.get(&claimed.request.kind).cloned();
            let start = claimed.slot.map(|slot| self.clock.start(slot, asked_at, claimed_at));
            let call = Call {
                store: self.store.clone(),
                clock: Arc::clone(&self.clock),
                queue: self.queue.clone(),
                claimed,
                start,
                handler,
                share,
                learned,
                stop: stop.clone(),
                leases: Arc::clone(&hand.leases),
            };
            let outcomes = hand.outcomes.clone();
            let meter = self.meter.clone();
            hand.leases.hold(lease, asked_at);
            let running = hand.calls.spawn(async move {
                let settle = call.run().await;
                meter.called(claimed_at);
                // No more wait to be settled than may be called at once: what this process holds stays bounded.
                let _ = outcomes.send(settle).await;
                drop(permit);
            });
            hand.leases.abort_with(lease, running);
        }
    }
}
