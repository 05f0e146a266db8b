//! Submissions.

use axum::extract::Request;
use chrono::Utc;
use serde_json::value::to_raw_value;
use tidegate::{
    StoreError, Submitted,
    retry_after::RetryAfter,
    store::{Admission, SameKey, Submission},
};
use tokio::time::timeout;

use super::{AWAY, PATIENCE, Relayer, answer::Answer, body};
use crate::{
    config::Twins,
    fingerprint::fingerprint,
    labels::{Label, Refusal},
    request::{Family, Payload, chain_of},
};

/// Submits a request, unless its twin goes on or has a result.
pub(super) async fn submit(relayer: Relayer, family: Family, request: Request) -> Answer {
    let payload = async {
        let body = body::read(request.into_body()).await?;
        let payload = family.parse(&body, Utc::now())?;
        relayer.check_chains(&payload)?;
        Ok(payload)
    };
    match payload.await {
        Ok(payload) => relayer.submit(family, &payload, None).await,
        Err(refusal) => Answer::Failed(refusal),
    }
}

impl Relayer {
    /// Refuses handles of chains that are not configured.
    fn check_chains(&self, payload: &Payload) -> Result<(), Refusal> {
        let unknown = payload
            .handles()
            .map(chain_of)
            .find(|id| !self.0.host_chains.contains(id));
        match unknown {
            None => Ok(()),
            Some(id) => Err(Refusal::new(
                Label::HostChainIdNotSupported,
                format!("Host chain ID {id} is not supported by this relayer"),
            )),
        }
    }

    async fn submit(&self, family: Family, payload: &Payload, submitter: Option<String>) -> Answer {
        let by_submitter = match self.0.twins {
            Twins::Shared => None,
            Twins::PerKey => submitter.as_deref(),
        };
        let Ok(text) = to_raw_value(payload) else {
            return Label::InternalServerError.into();
        };
        let submission = Submission {
            kind: family.kind().to_owned(),
            payload: text,
            idempotency_key: Some(fingerprint(payload, by_submitter)),
            // Signatures and validities may differ.
            same_key: SameKey::Replay,
            submitter,
            admission: Admission::Enforce,
            not_before: None,
        };
        match timeout(PATIENCE, self.0.store.submit(&submission)).await {
            Ok(Ok(Submitted::Accepted(ticket) | Submitted::Replayed(ticket))) => Answer::Accepted {
                job: ticket.id,
                // Without a time the twin has its result.
                retry_after: ticket.eta.map_or(RetryAfter::SOON, |eta| eta.retry_after),
            },
            Ok(Ok(Submitted::Refused { retry_after })) => Answer::Busy(retry_after, "its queue is full"),
            Ok(Err(error)) => of_error(family, &error),
            Err(_) => Answer::Busy(AWAY, "the database is slow"),
        }
    }
}

/// A caller repeats a submission that was refused for now; any other answer ends its call.
fn of_error(family: Family, error: &StoreError) -> Answer {
    if error.is_transient() {
        return Answer::Busy(AWAY, "the database is away");
    }
    tracing::error!(kind = family.kind(), %error, "a submission failed");
    Label::InternalServerError.into()
}
