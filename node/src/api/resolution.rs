//! Whether the downstream has executed a request that ended, by an operator or the downstream.

use std::sync::Arc;

use axum::{Json as JsonAnswer, extract::State};
use serde::{Deserialize, Serialize};
use tidegate::{
    internals::store::Resolved,
    request::{Executed, RequestId},
};
use utoipa::ToSchema;

use super::{
    body::Json,
    context::Api,
    openapi::{
        refusals::{Call, Changing, Ending, OfJob, Refusals, WithBody},
        schemas,
    },
    path::JobPath,
    problem::{ILLEGAL_STATE, Problem},
};

/// What is known of a request that ended.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Finding {
    #[schema(schema_with = schemas::known)]
    executed: Known,
    /// How that is known, for operators.
    #[schema(max_length = 1000)]
    note: Option<String>,
}

/// What can be known.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
struct Known(Executed);

impl TryFrom<String> for Known {
    type Error = &'static str;

    fn try_from(word: String) -> Result<Self, &'static str> {
        match word.parse() {
            Ok(executed @ (Executed::No | Executed::Yes)) => Ok(Self(executed)),
            _ => Err("executed is \"yes\" or \"no\""),
        }
    }
}

/// A request whose execution is known.
#[derive(Serialize, ToSchema)]
pub(super) struct ResolvedJob {
    /// `resolved`; or `known`, when it was known before.
    outcome: &'static str,
    #[schema(value_type = uuid::Uuid)]
    job_id: RequestId,
    #[schema(schema_with = schemas::known)]
    executed: Executed,
}

/// Say whether a request was executed that ended after a send.
///
/// The word of a key with the scope `respond` is the downstream's, which is believed rather than that of an operator, a
/// key with the scope `admin`. After `no`, its idempotency key is free. 409 for a request that lives, of which nothing was
/// ever unknown, or of which the downstream has said otherwise.
#[utoipa::path(
    post,
    path = "/v1/{kind}/{job_id}/resolution",
    params(JobPath),
    request_body(content = Finding),
    responses(
        (status = 200, description = "It is known", body = ResolvedJob),
        Refusals<(Call, OfJob, WithBody, Changing, Ending)>,
    ),
)]
pub(super) async fn resolve(
    State(api): State<Arc<Api>>,
    job: JobPath,
    Json(finding): Json<Finding>,
) -> Result<JsonAnswer<ResolvedJob>, Problem> {
    job.authorise(&api.store).await?;
    let job_id = job.id;
    let Known(executed) = finding.executed;
    let name = job.caller.name();
    let store = api.store.clone().on_behalf_of(name.as_deref().unwrap_or("http"));
    let by_downstream = !job.caller.is_operator();
    let resolved = store.resolve(job_id, executed, finding.note.as_deref(), by_downstream);
    let outcome = match resolved.await? {
        Resolved::Resolved => "resolved",
        Resolved::Known => "known",
        Resolved::Kept { executed, source } => {
            return Err(ILLEGAL_STATE.because(format!(
                "executed is {executed}, known by {source}, and stays so; what you say is on record"
            )));
        }
        Resolved::NotUnresolved(status) => {
            return Err(
                ILLEGAL_STATE.because(format!("the request is {status}, and nothing about its sends is unknown"))
            );
        }
    };
    Ok(JsonAnswer(ResolvedJob { outcome, job_id, executed }))
}
