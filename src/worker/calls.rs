//! One request's call of its stage: when it may start, how long it may run, when it is made twice, what becomes of it.

mod answers;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tidegate_policy::{HedgeShare, hedge_if};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::answers::{Failed, timed_out};
use super::{
    database_clock::DatabaseClock,
    leases::Leases,
    outcome::{Outcome, ToWrite},
    timeouts::Learned,
};
use crate::{
    error::StoreError,
    request::{RequestError, Stage},
    stage::{AnyReadiness, AnyTransact, Stages, TransactStage},
    store::{Claimed, Settle, Snooze, Store},
};

/// A reserved send that would start later than this after its time is given back: it would crowd the slots of others.
const LATE: Duration = Duration::from_millis(50);

/// The stage that a request is for.
pub(super) enum Handler {
    Readiness(Arc<dyn AnyReadiness>),
    Transact(TransactStage),
}

impl Handler {
    pub(super) fn of(stages: &Stages, stage: Stage, kind: &str) -> Option<Self> {
        match stage {
            Stage::Readiness => stages.readiness.get(kind).cloned().map(Self::Readiness),
            Stage::Tx => stages.transact.get(kind).cloned().map(Self::Transact),
        }
    }
}

/// A claimed request on its way through its stage. Dropped when its lease is lost.
pub(super) struct Call {
    pub(super) store: Store,
    pub(super) clock: Arc<DatabaseClock>,
    pub(super) queue: String,
    pub(super) claimed: Claimed,
    /// When its send may start, in a queue with a rate.
    pub(super) start: Option<Instant>,
    pub(super) handler: Handler,
    /// What hedges of this kind may add.
    pub(super) share: Arc<HedgeShare>,
    /// Its timeout, where that is learned.
    pub(super) learned: Option<Arc<Learned>>,
    pub(super) stop: CancellationToken,
    pub(super) leases: Arc<Leases>,
}

/// What came of calling the stage.
struct Called {
    outcome: Outcome,
    /// None: it was not called.
    took: Option<Duration>,
    hedges: u32,
}

impl From<Outcome> for Called {
    fn from(outcome: Outcome) -> Self {
        Self {
            outcome,
            took: None,
            hedges: 0,
        }
    }
}

impl Call {
    /// Runs the stage.
    pub(super) async fn run(self) -> Settle<Outcome> {
        let (called, effects) = match &self.handler {
            Handler::Readiness(stage) => (self.check(stage.as_ref()).await, None),
            Handler::Transact(stage) => (self.transact(stage.sends.as_ref()).await, stage.effects.clone()),
        };
        let outcome = match (called.outcome, effects) {
            (Outcome::Receipt(receipt, None), Some(stage)) => {
                let request = self.claimed.request;
                Outcome::Receipt(receipt, Some(ToWrite { stage, request }))
            }
            (outcome, _) => outcome,
        };
        Settle {
            lease: self.claimed.lease,
            outcome,
            took: called.took,
            hedges: called.hedges,
        }
    }

    async fn check(&self, stage: &dyn AnyReadiness) -> Called {
        if let Some(outcome) = self.not_begun() {
            return outcome.into();
        }
        let request = &self.claimed.request;
        self.call(
            || answers::check(stage, request),
            |limit| {
                Outcome::Snooze(Snooze {
                    after: None,
                    error: Some(timed_out("the check", limit)),
                })
            },
        )
        .await
    }

    async fn transact(&self, stage: &dyn AnyTransact) -> Called {
        let request = &self.claimed.request;
        if let Some(outcome) = self.not_begun() {
            return outcome.into();
        }
        if request.attempt > 1 {
            // An earlier sender may have succeeded and been lost before it could say so.
            let began = Instant::now();
            let found = answers::find_receipt(stage, request);
            let found = match tokio::time::timeout(self.claimed.timeout, found).await {
                Ok(Ok(None)) => None,
                Ok(Ok(Some(receipt))) => Some(Outcome::Receipt(receipt, None)),
                Ok(Err(outcome)) => Some(outcome),
                Err(_) => Some(Outcome::unsent(timed_out(
                    "looking for a receipt",
                    self.claimed.timeout,
                ))),
            };
            if let Some(outcome) = found {
                return Called {
                    outcome,
                    took: Some(began.elapsed()),
                    hedges: 0,
                };
            }
            if request.attempt > request.attempts_max {
                return Outcome::retry(RequestError::new(
                    "attempts_exhausted",
                    "the last sender was lost, and the downstream has no receipt",
                    true,
                ))
                .into();
            }
        }
        if let Some(start) = self.start
            && !self.wait_for_slot(start).await
        {
            return Outcome::Release.into();
        }
        if !self.leases.holds(&self.claimed.lease) {
            return Outcome::Lost.into();
        }
        self.call(
            || answers::send(stage, request),
            |limit| Outcome::retry(timed_out("sending", limit)),
        )
        .await
    }

    /// What is said of a request whose call must not begin.
    fn not_begun(&self) -> Option<Outcome> {
        if self.stop.is_cancelled() {
            Some(Outcome::Release)
        } else if !self.leases.holds(&self.claimed.lease) {
            Some(Outcome::Lost)
        } else {
            None
        }
    }

    /// Calls, and calls again while there is no answer, as far as the policy allows that: the first answer counts, and
    /// the other calls are dropped. A learned timeout learns from it.
    async fn call<F>(&self, call: impl Fn() -> F + Sync, timed_out: impl FnOnce(Duration) -> Outcome) -> Called
    where
        F: Future<Output = Result<Outcome, Outcome>> + Send,
    {
        let learned = self.learned.as_ref().map(Learned::begin);
        let longest = self.claimed.timeout;
        let limit = learned
            .as_ref()
            .map_or(longest, |learned| learned.timeout().min(longest));
        let began = Instant::now();
        let hedges = AtomicU32::new(0);
        let failed = Failed::default();
        let answered = async {
            let Some(hedging) = self.claimed.hedging else {
                return call().await;
            };
            self.share.set(hedging.share);
            let ends = began + limit;
            let may_start = |_| self.may_hedge(ends);
            let numbered = |number| {
                if number > 0 {
                    hedges.store(number, Ordering::Relaxed);
                    self.leases.meter().hedged();
                }
                let call = call();
                let failed = &failed;
                async move { call.await.inspect_err(|outcome| failed.note(outcome)) }
            };
            hedge_if(hedging.after, hedging.max, &self.share, may_start, numbered)
                .await
                .outcome
                .map_err(|outcome| failed.tell(outcome))
        };
        let called = tokio::time::timeout(limit, answered).await;
        let took = began.elapsed();
        if let Some(learned) = learned {
            match &called {
                Ok(Ok(_)) => learned.answered(took),
                Ok(Err(outcome)) if outcome.is_timeout() => learned.timed_out(took),
                // It is no fault of the downstream's when its request had no more time.
                Err(_) if learned.timeout() <= longest => learned.timed_out(limit),
                Ok(Err(_)) | Err(_) => drop(learned),
            }
        }
        Called {
            outcome: match called {
                Ok(Ok(outcome) | Err(outcome)) => outcome,
                Err(_) => timed_out(limit),
            },
            took: Some(took),
            hedges: hedges.into_inner(),
        }
    }

    /// Whether one more call may begin now: the lease holds, nobody has asked to stop, and a send has waited for a slot
    /// of its own.
    async fn may_hedge(&self, ends: Instant) -> bool {
        let is_send = matches!(self.handler, Handler::Transact(_));
        if is_send && !self.reserve_hedge(ends).await {
            return false;
        }
        !self.stop.is_cancelled() && self.leases.holds(&self.claimed.lease)
    }

    /// Takes a slot of the queue's rate and waits for it; false when none comes before the call has to end.
    async fn reserve_hedge(&self, ends: Instant) -> bool {
        loop {
            if self.not_begun().is_some() {
                return false;
            }
            let (start, is_slot) = match self.reserve().await {
                Ok(Ok(start)) => (start, true),
                Ok(Err(wait)) => (Instant::now() + wait, false),
                Err(_) => return false,
            };
            if start >= ends {
                return false;
            }
            tokio::select! {
                () = self.stop.cancelled() => return false,
                () = tokio::time::sleep_until(start) => {}
            }
            if is_slot && start.elapsed() <= LATE {
                return true;
            }
        }
    }

    /// Takes one more slot: `Ok` says when to send, `Err` in how long to ask again.
    async fn reserve(&self) -> Result<Result<Instant, Duration>, StoreError> {
        let asked_at = Instant::now();
        let reserved = self.store.reserve_send(&self.queue).await?;
        Ok(reserved.map(|slot| self.clock.start(slot, asked_at, Instant::now())))
    }

    /// Waits for the reserved time; false when the send is to be given back.
    ///
    /// A first attempt that is late goes back. A later one may be late because its receipt was looked for, and would
    /// be late again: it takes another slot.
    async fn wait_for_slot(&self, start: Instant) -> bool {
        let mut start = start;
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return false,
                () = tokio::time::sleep_until(start) => {}
            }
            if start.elapsed() <= LATE {
                return true;
            }
            if self.claimed.request.attempt == 1 {
                return false;
            }
            start = loop {
                match self.reserve().await {
                    Ok(Ok(start)) => break start,
                    Ok(Err(wait)) => tokio::select! {
                        () = self.stop.cancelled() => return false,
                        () = tokio::time::sleep(wait) => {}
                    },
                    Err(_) => return false,
                }
            };
        }
    }
}
