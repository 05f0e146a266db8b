//! Stages that call a simulated downstream in the worker's own process.

use std::{future::pending, sync::Arc};

use tidegate::{
    request::{Flow, Request, RequestError},
    stage::{Check, Readiness, Receipt, Sent, Stages, Transact},
};

use super::{Checked, Downstream, SendAnswer};

/// Both stages of one kind, or of all: the request says which kind it is of.
#[derive(Clone)]
pub struct SimulatedStage(pub Arc<Downstream>);

/// Stages for every kind that `downstream` serves.
#[must_use]
pub fn stages(downstream: &Arc<Downstream>) -> Stages {
    let stage = || SimulatedStage(downstream.clone());
    downstream.kinds.iter().fold(Stages::new(), |stages, (kind, shape)| {
        let stages = stages.transact(kind, stage());
        if shape.flow == Flow::Decrypt {
            stages.readiness(kind, stage())
        } else {
            stages
        }
    })
}

impl Readiness for SimulatedStage {
    async fn check(&self, request: &Request) -> Check {
        match self.0.check(Some(request.id), &request.kind).await {
            Checked::Ready => Check::Ready,
            Checked::Snooze { after } => Check::Snooze { after },
            Checked::TooMany { after } => Check::Snooze { after: Some(after) },
            Checked::Never => Check::Failed(RequestError::new(
                "not_possible",
                "the simulated downstream says that this can never run",
                false,
            )),
            Checked::UnknownKind => Check::Failed(unknown_kind(&request.kind)),
        }
    }
}

impl Transact for SimulatedStage {
    async fn send(&self, request: &Request) -> Sent {
        match self.0.send(request.id, &request.kind).await {
            SendAnswer::Taken(receipt) => Sent::Receipt(receipt),
            SendAnswer::Rejected => Sent::Rejected(RequestError::new(
                "rejected",
                "the simulated downstream rejected this request",
                false,
            )),
            SendAnswer::Broken => Sent::Retry {
                error: RequestError::new("http_500", "the simulated downstream failed", true),
                after: None,
                may_have_left: true,
            },
            SendAnswer::TooMany { after } => Sent::Retry {
                error: RequestError::new("http_429", "sent beyond the rate limit", true),
                after: Some(after),
                may_have_left: false,
            },
            // The engine drops this call when the policy's timeout passes.
            SendAnswer::Silence => pending().await,
            SendAnswer::UnknownKind => Sent::Rejected(unknown_kind(&request.kind)),
        }
    }

    async fn find_receipt(&self, request: &Request) -> Result<Option<Receipt>, RequestError> {
        Ok(self.0.find_receipt(request.id, &request.kind))
    }
}

fn unknown_kind(kind: &str) -> RequestError {
    RequestError::new(
        "unknown_kind",
        format!("the simulated downstream does not serve the kind {kind}"),
        false,
    )
}
