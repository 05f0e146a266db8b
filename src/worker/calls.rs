//! One call of a stage: when it may start, how long it may run, what becomes of it.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{effects::ToWrite, leases::Leases, settler::Outcome};
use crate::{
    request::{RequestError, Stage},
    stage::{AnyReadiness, AnyTransact, Check, Sent, Stages, TransactStage},
    store::{Claimed, NotYet, Retry, Store},
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
    pub(super) queue: String,
    pub(super) claimed: Claimed,
    pub(super) claimed_at: Instant,
    pub(super) handler: Handler,
    pub(super) stop: CancellationToken,
    pub(super) leases: Arc<Leases>,
}

impl Call {
    /// Runs the stage; a panic in it is an outcome like any other.
    pub(super) async fn run(self) -> Outcome {
        match &self.handler {
            Handler::Readiness(stage) => self.check(stage.as_ref()).await,
            Handler::Transact(stage) => {
                let outcome = self.transact(stage.sends.as_ref()).await;
                match (outcome, &stage.effects) {
                    (Outcome::Receipt(receipt, None), Some(effects)) => {
                        let effect = ToWrite {
                            stage: Arc::clone(effects),
                            request: self.claimed.request,
                        };
                        Outcome::Receipt(receipt, Some(effect))
                    }
                    (outcome, _) => outcome,
                }
            }
        }
    }

    async fn check(&self, stage: &dyn AnyReadiness) -> Outcome {
        if self.stop.is_cancelled() {
            return Outcome::Release;
        }
        if !self.leases.holds(&self.claimed.lease) {
            return Outcome::Lost;
        }
        let check =
            AssertUnwindSafe(async { stage.check(&self.claimed.request).await }).catch_unwind();
        match tokio::time::timeout(self.claimed.timeout, check).await {
            Ok(Ok(Check::Ready)) => Outcome::Passed,
            Ok(Ok(Check::NotYet { after })) => Outcome::NotYet(NotYet { after, error: None }),
            Ok(Ok(Check::Failed(error))) => Outcome::CheckFailed(error),
            Ok(Err(panic)) => Outcome::CheckFailed(panicked(panic.as_ref())),
            Err(_) => Outcome::NotYet(NotYet::default()),
        }
    }

    async fn transact(&self, stage: &dyn AnyTransact) -> Outcome {
        let request = &self.claimed.request;
        let start = self
            .claimed
            .send_in
            .map(|send_in| self.claimed_at + send_in);
        if self.stop.is_cancelled() {
            return Outcome::Release;
        }
        if !self.leases.holds(&self.claimed.lease) {
            return Outcome::Lost;
        }
        if request.attempt > 1 {
            // An earlier sender may have succeeded and been lost before it could say so.
            let found =
                AssertUnwindSafe(async { stage.find_receipt(request).await }).catch_unwind();
            match tokio::time::timeout(self.claimed.timeout, found).await {
                Ok(Ok(Ok(Some(receipt)))) => return Outcome::Receipt(receipt, None),
                Ok(Ok(Ok(None))) => {}
                Ok(Ok(Err(error))) => return Outcome::retry(error),
                Ok(Err(panic)) => return Outcome::retry(panicked(panic.as_ref())),
                Err(_) => {
                    return Outcome::retry(timed_out(
                        "looking for a receipt",
                        self.claimed.timeout,
                    ));
                }
            }
            if request.attempt > request.attempts_max {
                return Outcome::retry(RequestError::new(
                    "attempts_exhausted",
                    "the last sender was lost, and the downstream has no receipt",
                    true,
                ));
            }
        }
        if let Some(start) = start
            && !self.wait_for_slot(start).await
        {
            return Outcome::Release;
        }
        if !self.leases.holds(&self.claimed.lease) {
            return Outcome::Lost;
        }

        let send = AssertUnwindSafe(async { stage.send(request).await }).catch_unwind();
        match tokio::time::timeout(self.claimed.timeout, send).await {
            Ok(Ok(Sent::Receipt(receipt))) => Outcome::Receipt(receipt, None),
            Ok(Ok(Sent::Retry {
                error,
                after,
                may_have_left,
            })) => Outcome::Retry(Retry {
                error,
                after,
                may_have_left,
            }),
            Ok(Ok(Sent::Rejected(error))) => Outcome::Rejected(error),
            Ok(Err(panic)) => Outcome::retry(panicked(panic.as_ref())),
            Err(_) => Outcome::retry(timed_out("sending", self.claimed.timeout)),
        }
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
                match self.store.reserve_send(&self.queue).await {
                    Ok(Ok(send_in)) => break Instant::now() + send_in,
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

fn timed_out(what: &str, after: Duration) -> RequestError {
    RequestError::new(
        "timeout",
        format!("{what} took longer than {} ms", after.as_millis()),
        true,
    )
}

pub(super) fn panicked(panic: &(dyn std::any::Any + Send)) -> RequestError {
    let message = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    RequestError::new(
        "stage_panicked",
        format!("the stage panicked: {message}"),
        true,
    )
}
