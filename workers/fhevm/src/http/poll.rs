//! Polls.

use tidegate::request::RequestId;
use tokio::time::timeout;
use uuid::Uuid;

use super::{
    AWAY, PATIENCE, Relayer,
    answer::{self, Answer},
};
use crate::{
    labels::{Detail, Label, Refusal},
    request::Family,
};

/// How many characters a UUID with hyphens has.
const HYPHENATED: usize = 36;

/// Where a request stands, or its result.
pub(super) async fn poll(relayer: Relayer, family: Family, job_id: String) -> Answer {
    let id = Uuid::try_parse(&job_id).ok().filter(|_| job_id.len() == HYPHENATED);
    let Some(id) = id.map(RequestId) else {
        return Refusal::invalid(vec![Detail::new("jobId", "Must be a UUID")]).into();
    };
    match timeout(PATIENCE, relayer.0.store.outlook(id)).await {
        Ok(Ok(Some(outlook))) if outlook.kind == family.kind() => answer::of_request(family, outlook),
        Ok(Ok(_)) => Label::NotFound.into(),
        // An answer that ends the call would lose the request for its caller.
        Ok(Err(error)) => {
            if !error.is_transient() {
                tracing::error!(%error, "a poll failed");
            }
            Answer::Queued(AWAY)
        }
        Err(_) => Answer::Queued(AWAY),
    }
}
