//! Polls.

use axum::extract::Request;
use tidegate::request::RequestId;
use tokio::time::timeout;
use uuid::Uuid;

use super::{
    AWAY, PATIENCE, Relayer,
    answer::{self, Answer},
    keys::Refused,
};
use crate::{
    labels::{Detail, Label, Refusal},
    request::Family,
};

/// How many characters a UUID with hyphens has.
const HYPHENATED: usize = 36;

/// Where a request stands, or its result. Any caller with its id may ask.
pub(super) async fn poll(relayer: Relayer, family: Family, job_id: String, request: Request) -> Answer {
    let (call, _) = request.into_parts();
    let admitted = relayer.caller(&call).await;
    if matches!(admitted, Err(Refused::Unauthorized)) {
        return Label::Unauthorized.into();
    }
    let id = Uuid::try_parse(&job_id).ok().filter(|_| job_id.len() == HYPHENATED);
    let Some(id) = id.map(RequestId) else {
        return Refusal::invalid(vec![Detail::new("jobId", "Must be a UUID")]).into();
    };
    // From here on, an answer that ends the call would lose the request for its caller.
    let (Ok(_), Some(_permit)) = (admitted, relayer.0.node.admit()) else {
        return Answer::Queued(AWAY);
    };
    match timeout(PATIENCE, relayer.0.node.outlook(id)).await {
        Ok(Ok(Some(outlook))) if outlook.kind == family.kind() => answer::of_request(family, outlook),
        Ok(Ok(_)) => Label::NotFound.into(),
        Ok(Err(error)) => {
            if !error.is_transient() {
                tracing::error!(%error, "a poll failed");
            }
            Answer::Queued(AWAY)
        }
        Err(_) => Answer::Queued(AWAY),
    }
}
