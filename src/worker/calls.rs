//! One request's call of its stage: its start, its timeout, its hedges and its outcome.

mod answers;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use chrono::{TimeDelta, Utc};
use tidegate_policy::{HedgeShare, hedge_if};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use self::answers::Failed;
use super::{
    outcome::{Report, WithEffect, is_timeout},
    shared::{ServedQueue, Shared},
    spans,
    timeouts::LearnedTimeout,
};
use crate::{
    request::{RequestError, Stage},
    stage::{AnyReadiness, AnyTransact, Found},
    store::{Claimed, Outcome, Settle},
    traces::Traced,
};

/// A reserved send that is later than this is released: it would come too close to the sends of the next slots.
const LATE: Duration = Duration::from_millis(50);

/// A call that is cut off so shortly before its request's deadline was cut by that.
const MOMENT: TimeDelta = TimeDelta::milliseconds(500);

/// A claimed request on its way through its stage. Dropped when its lease is lost.
pub(super) struct Call {
    pub(super) queue: Arc<ServedQueue>,
    pub(super) claimed: Claimed,
    /// When its send may start, in a queue with a rate.
    pub(super) start: Option<Instant>,
    /// The limit on hedges of this kind.
    pub(super) share: Arc<HedgeShare>,
    /// Its timeout, where that is learned.
    pub(super) learned: Option<Arc<LearnedTimeout>>,
    pub(super) stop: CancellationToken,
}

impl Call {
    /// Runs the stage.
    ///
    /// Its future is moved several times on its way into a task. So it is kept small: the call itself, and what few calls
    /// need, are boxed.
    pub(super) async fn run(mut self: Box<Self>) -> Settle<Report> {
        if let Some(report) = self.not_begun() {
            return self.uncalled(report);
        }
        let Some(Traced { span, traceparent }) = spans::attempt(&self.queue, &self.claimed) else {
            return self.run_stage().await;
        };
        self.claimed.request.traceparent = Some(traceparent);
        let mut settle = Box::pin(self.run_stage().instrument(span.clone())).await;
        spans::note(&span, &settle.outcome);
        settle.span = Some(span).filter(|span| !span.is_none());
        settle
    }

    async fn run_stage(self: Box<Self>) -> Settle<Report> {
        // Cancels tasks that the stage has spawned, whether this call ends or is dropped.
        let _over = self.claimed.request.cancellation.clone().drop_guard();
        let Shared { stages, .. } = &*self.queue.shared;
        let kind = &self.claimed.request.kind;
        let is_send = self.queue.stage == Stage::Tx;
        if let Some(stage) = stages.readiness.get(kind).filter(|_| !is_send) {
            return self.check(stage.as_ref()).await;
        }
        let Some(stage) = stages.transact.get(kind).filter(|_| is_send) else {
            // A claim by kinds returns none of these.
            tracing::error!(request = %self.claimed.request.id, kind, "claimed without a stage for it");
            return self.uncalled(Outcome::Released);
        };
        let mut settle = self.transact(stage.sends.as_ref()).await;
        settle.outcome = match (settle.outcome, stage.effects.clone()) {
            (Report::Outcome(Outcome::Receipt(receipt)), Some(stage)) => {
                let request = Box::new(self.claimed.request);
                Report::Effect(WithEffect { receipt, stage, request })
            }
            (report, _) => report,
        };
        settle
    }

    /// A report without a call.
    fn uncalled(&self, report: impl Into<Report>) -> Settle<Report> {
        Settle::new(self.claimed.lease, report.into())
    }

    async fn check(&self, stage: &dyn AnyReadiness) -> Settle<Report> {
        let request = &self.claimed.request;
        let timed_out = |limit| Outcome::snoozed(None, Some(self.timed_out("the check", limit)));
        self.call(|| answers::check(stage, request), timed_out).await
    }

    async fn transact(&self, stage: &dyn AnyTransact) -> Settle<Report> {
        let request = &self.claimed.request;
        if request.may_be_repeated() {
            // An earlier send may have succeeded, and its worker may have been lost before the settle.
            let began = Instant::now();
            let limit = self.claimed.timeout;
            let found = match tokio::time::timeout(limit, answers::find_receipt(stage, request)).await {
                Ok(Ok(Found::Receipt(receipt))) => Some(Outcome::Receipt(receipt)),
                Ok(Ok(Found::Nothing | Found::Never)) => None,
                Ok(Err(outcome)) => Some(outcome),
                Err(_) => Some(Outcome::unsent(self.timed_out("the search for a receipt", limit))),
            };
            if let Some(outcome) = found {
                return Settle { took: Some(began.elapsed()), ..self.uncalled(outcome) };
            }
            if request.attempt > request.attempts_max {
                return self.uncalled(Outcome::retry(RequestError::new(
                    "attempts_exhausted",
                    "the worker of the last send was lost, and the downstream has no receipt",
                    true,
                )));
            }
        }
        if let Some(start) = self.start
            && !self.wait_for_slot(Some(start), None).await
        {
            return self.uncalled(self.not_begun().unwrap_or(Outcome::Released.into()));
        }
        if !self.queue.leases.holds(&self.claimed.lease) {
            return self.uncalled(Report::Lost);
        }
        self.call(|| answers::send(stage, request), |limit| Outcome::retry(self.timed_out("sending", limit))).await
    }

    /// The error of a call that was cut off, with the limit that cut it.
    fn timed_out(&self, call: &str, limit: Duration) -> RequestError {
        let Claimed { request, timeout, .. } = &self.claimed;
        let (kind, stage) = (&request.kind, self.queue.stage);
        let limit_name = if request.deadline_at - Utc::now() < MOMENT {
            "all that was left before its deadline".to_owned()
        } else if limit < *timeout {
            format!("the learned timeout of {kind}.{stage}")
        } else {
            format!("{kind}.{stage}.timeout_ms")
        };
        let message = format!("{call} took longer than {} ms ({limit_name})", limit.as_millis());
        RequestError::new("timeout", message, true)
    }

    /// The report on a request whose call must not begin.
    fn not_begun(&self) -> Option<Report> {
        if self.stop.is_cancelled() {
            Some(Outcome::Released.into())
        } else if !self.queue.leases.holds(&self.claimed.lease) {
            Some(Report::Lost)
        } else {
            None
        }
    }

    /// Calls, and hedges as the policy allows: the first answer counts, and the other calls are dropped. A refusal counts
    /// when no other call is left that may succeed. A learned timeout takes a sample of the answer.
    async fn call<F>(&self, call: impl Fn() -> F + Sync, timed_out: impl FnOnce(Duration) -> Outcome) -> Settle<Report>
    where
        F: Future<Output = Result<Outcome, Outcome>> + Send,
    {
        let learned = self.learned.as_ref().map(LearnedTimeout::begin);
        let longest = self.claimed.timeout;
        let limit = learned.as_ref().map_or(longest, |learned| learned.timeout.min(longest));
        let began = Instant::now();
        let hedges = AtomicU32::new(0);
        let failed = Failed::default();
        let answered = async {
            let Some(hedging) = self.claimed.hedging else {
                return call().await;
            };
            self.share.set(hedging.share);
            let ends = began + limit;
            let may_start = |_| async { !failed.have_refused() && self.may_hedge(ends).await };
            let numbered = |number| {
                let (call, failed, hedges) = (call(), &failed, &hedges);
                async move {
                    // One that is dropped before it begins is no hedge.
                    if number > 0 {
                        hedges.store(number, Ordering::Relaxed);
                        self.queue.leases.meter.hedged();
                    }
                    answers::of_hedged(call.await).inspect_err(|outcome| failed.note(outcome))
                }
            };
            let hedged = hedge_if(hedging.after, hedging.max, &self.share, may_start, numbered);
            match Box::pin(hedged).await.outcome {
                Ok(outcome) => Ok(outcome),
                Err(outcome) => failed.merge(outcome),
            }
        };
        let called = tokio::time::timeout(limit, answered).await;
        let took = began.elapsed();
        if let Some(learned) = learned {
            match &called {
                Ok(Ok(_)) => learned.end(|estimator| estimator.answered(took)),
                Ok(Err(outcome)) if is_timeout(outcome) => learned.end(|estimator| estimator.timed_out(took)),
                // A limit shorter than the learned timeout is the request's, and no sample of the downstream.
                Err(_) if learned.timeout <= longest => learned.end(|estimator| estimator.timed_out(limit)),
                Ok(Err(_)) | Err(_) => drop(learned),
            }
        }
        Settle {
            lease: self.claimed.lease,
            outcome: match called {
                Ok(Ok(outcome) | Err(outcome)) => outcome,
                Err(_) => timed_out(limit),
            }
            .into(),
            took: Some(took),
            hedges: hedges.into_inner(),
            span: None,
        }
    }

    /// Whether a hedge may begin now: the lease holds, the worker does not stop, and a send has waited for a slot of
    /// its own.
    async fn may_hedge(&self, ends: Instant) -> bool {
        let is_send = self.queue.stage == Stage::Tx;
        (!is_send || self.wait_for_slot(None, Some(ends)).await) && self.not_begun().is_none()
    }

    /// Waits for `slot`, or reserves the next slot of the queue's rate and waits for that. False when the call must not
    /// begin, or no slot comes before `ends`.
    ///
    /// A first attempt that is too late for its slot is released. A later one may be late because of the search for its
    /// receipt, and would be late again: it reserves another slot. So does a hedge.
    async fn wait_for_slot(&self, mut slot: Option<Instant>, ends: Option<Instant>) -> bool {
        let ServedQueue { shared, name, .. } = &*self.queue;
        let reserves_again = ends.is_some() || self.claimed.request.may_be_repeated();
        while self.not_begun().is_none() {
            let start = match slot {
                Some(start) => start,
                None => {
                    let asked_at = Instant::now();
                    match Box::pin(shared.store.reserve_send(name)).await {
                        Ok(Ok(reserved)) => *slot.insert(shared.clock.start(reserved, asked_at, Instant::now())),
                        Ok(Err(wait)) => Instant::now() + wait,
                        Err(_) => return false,
                    }
                }
            };
            if ends.is_some_and(|ends| start >= ends) {
                return false;
            }
            let waited = self.stop.run_until_cancelled(tokio::time::sleep_until(start)).await;
            if waited.is_some() && slot.take().is_some() {
                if start.elapsed() <= LATE {
                    return true;
                }
                if !reserves_again {
                    return false;
                }
            }
        }
        false
    }
}
