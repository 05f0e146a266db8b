//! Stages that call a simulated downstream in the worker's own process.

use std::{future::pending, sync::Arc};

use tidegate::{
    request::{Flow, Request, RequestError},
    stage::{Check, Found, JsonText, Readiness, Sent, Stages, Transact},
};

use super::{Downstream, Refusal};

/// Both stages of one kind, or of all: the request names its kind.
#[derive(Clone)]
pub struct SimulatedStage(pub Arc<Downstream>);

/// Stages for every kind that `downstream` serves.
#[must_use]
pub fn stages(downstream: &Arc<Downstream>) -> Stages {
    let stage = || SimulatedStage(downstream.clone());
    downstream.kinds.values().fold(Stages::new(), |stages, kind| {
        let stages = stages.transact(&kind.name, stage());
        if kind.flow == Flow::Decrypt { stages.readiness(&kind.name, stage()) } else { stages }
    })
}

impl Readiness for SimulatedStage {
    type Payload = JsonText;

    async fn check(&self, request: &Request) -> Check {
        match self.0.check(Some(request.id), &request.kind).await {
            Ok(()) => Check::Ready,
            Err(refusal @ (Refusal::NotYet { .. } | Refusal::TooMany { .. })) => {
                Check::Snooze { after: refusal.after() }
            }
            Err(refusal) => Check::Failed(refusal.error(&request.kind)),
        }
    }
}

impl Transact for SimulatedStage {
    type Payload = JsonText;

    async fn send(&self, request: &Request) -> Sent {
        match self.0.send(request.send_id, &request.kind).await {
            Ok(receipt) => Sent::Receipt(receipt),
            // The engine drops this call when the policy's timeout passes.
            Err(Refusal::Silence) => pending().await,
            Err(refusal @ (Refusal::Broken | Refusal::TooMany { .. })) => Sent::Retry {
                error: refusal.error(&request.kind),
                after: refusal.after(),
                may_have_left: refusal == Refusal::Broken,
            },
            Err(refusal) => Sent::Rejected(refusal.error(&request.kind)),
        }
    }

    async fn find_receipt(&self, request: &Request) -> Result<Found, RequestError> {
        Ok(self.0.find_receipt(request.send_id, &request.kind).into())
    }
}
