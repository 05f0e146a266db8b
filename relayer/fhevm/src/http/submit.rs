//! Submissions.

use axum::extract::Request;
use chrono::Utc;
use tidegate::{
    StoreError, Submitted,
    internals::store::{Admission, SameKey, Submission},
    request::JsonText,
    retry_after::RetryAfter,
};
use tidegate_node::internals::traced::traceparent;
use tokio::time::timeout;

use super::{AWAY, PATIENCE, Relayer, answer::Answer, body, keys::Refused};
use crate::{
    config::Duplicates,
    fingerprint::fingerprint,
    labels::{Label, Refusal},
    request::{Family, Payload, chain_of},
};

/// Submits a request, unless its duplicate goes on or has a result.
pub(super) async fn submit(relayer: Relayer, family: Family, request: Request) -> Answer {
    let (call, body) = request.into_parts();
    let submitter = relayer.caller(&call).await;
    let body = body::read(body).await;
    if matches!(submitter, Err(Refused::Unauthorized)) {
        return Label::Unauthorized.into();
    }
    let payload = || {
        let body = body?;
        let payload = family.parse(&body, Utc::now())?;
        relayer.check_chains(&payload)?;
        Ok(payload)
    };
    let payload = match payload() {
        Ok(payload) => payload,
        Err(refusal) => return Answer::Failed(refusal),
    };
    let Ok(submitter) = submitter else {
        return Answer::Busy(AWAY, "the API keys cannot be read");
    };
    let Some(_permit) = relayer.0.node.admit() else {
        return Answer::Busy(AWAY, "this node serves as many calls as it may");
    };
    relayer.submit(family, &payload, submitter, traceparent(&call)).await
}

impl Relayer {
    /// Refuses handles of chains that are not configured.
    fn check_chains(&self, payload: &Payload) -> Result<(), Refusal> {
        let unknown = payload.handles().map(chain_of).find(|id| !self.0.host_chains.contains(id));
        match unknown {
            None => Ok(()),
            Some(id) => Err(Refusal::new(
                Label::HostChainIdNotSupported,
                format!("Host chain ID {id} is not supported by this relayer"),
            )),
        }
    }

    async fn submit(
        &self,
        family: Family,
        payload: &Payload,
        submitter: Option<String>,
        traceparent: Option<String>,
    ) -> Answer {
        let by_submitter = match self.0.duplicates {
            Duplicates::Shared => None,
            Duplicates::PerKey => submitter.as_deref(),
        };
        let Ok(text) = JsonText::of(payload) else {
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
            traceparent,
            callback_url: None,
        };
        let submitted = timeout(PATIENCE, self.0.node.submit(submission)).await;
        match submitted {
            Ok(Ok(Submitted::Accepted(ticket) | Submitted::Replayed(ticket))) => {
                let mut eta = ticket.eta;
                // A duplicate that goes on: those of a group come without a time.
                if eta.is_none() && !ticket.status.is_terminal() {
                    let outlook = timeout(PATIENCE, self.0.node.outlook(ticket.id)).await;
                    eta = outlook.ok().and_then(Result::ok).flatten().and_then(|outlook| outlook.eta);
                }
                Answer::Accepted { job: ticket.id, retry_after: eta.map_or(RetryAfter::SOON, |eta| eta.retry_after) }
            }
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
