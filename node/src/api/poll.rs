//! Polling and cancelling a request.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use tidegate::{
    internals::store::Cancelled,
    request::{RequestId, Status},
};
use utoipa::ToSchema;

use super::{
    answers::{self, Ended, InProgress},
    context::Api,
    openapi::{
        refusals::{Call, Cancelling, OfJob, Refusals},
        schemas,
    },
    path::{JobPath, unknown},
    problem::{NOT_CANCELLABLE, Problem},
    waiting::Wait,
};

/// Poll a request for its status or its result.
///
/// 202 while the request is in progress, 200 when it has ended; 404 for an unknown id, one of another kind, or an
/// invalid id. With `Prefer: wait=N`, 202 comes only when N seconds have passed.
#[utoipa::path(
    get,
    path = "/v1/{kind}/{job_id}",
    params(JobPath, Wait),
    responses(
        (status = 202, description = "The request is under way: poll again", body = InProgress),
        (status = 200, description = "The request has ended", body = Ended),
        Refusals<(Call, OfJob)>,
    ),
)]
pub(super) async fn poll(
    State(api): State<Arc<Api>>,
    job: JobPath,
    mut wait: Wait,
) -> axum::response::Result<Response> {
    let outlook = job.find(&api.node.outlooks, None).await?.outlook;
    let later = wait.for_end(&api, job.id, outlook.status).await?;
    let outlook = later.unwrap_or(outlook);
    api.node.metrics.polled(&outlook);
    Ok(wait.applied(answers::answer(outlook)))
}

/// Cancel a request.
///
/// 200 when it has ended as cancelled (also before, so that a repeated call gets the same answer); its error says whether
/// an earlier send may have been executed. 202 when it is being sent: unless that succeeds, it ends as cancelled, so poll
/// it. 409 when the downstream took it, or it has ended otherwise.
#[utoipa::path(
    delete,
    path = "/v1/{kind}/{job_id}",
    params(JobPath),
    responses(
        (status = 200, description = "The request was cancelled", body = CancelledJob),
        (status = 202, description = "The request is being sent: poll it", body = InProgress),
        Refusals<(Call, OfJob, Cancelling)>,
    ),
)]
pub(super) async fn cancel(State(api): State<Arc<Api>>, job: JobPath) -> Result<Response, Problem> {
    job.authorise(&api.store).await?;
    match api.store.cancel(job.id).await? {
        Cancelled::NotCancellable(status) => Err(NOT_CANCELLABLE
            .because(format!("the request is {status}; only a request that waits or is being sent can be cancelled"))
            .of(status)),
        Cancelled::Unknown => Err(unknown(job.id)),
        // It may have ended meanwhile.
        Cancelled::Cancelling => {
            let outlook = api.store.outlook(job.id).await?.ok_or_else(|| unknown(job.id))?;
            Ok(answers::answer(outlook))
        }
        Cancelled::Cancelled => {
            let (job_id, state) = (job.id, Status::Failure);
            api.moved(job_id, state);
            let outcome = "cancelled";
            Ok(Json(CancelledJob { outcome, job_id, state }).into_response())
        }
    }
}

/// A cancelled request.
#[derive(Serialize, ToSchema)]
pub(super) struct CancelledJob {
    #[schema(schema_with = schemas::cancelled)]
    outcome: &'static str,
    #[schema(value_type = uuid::Uuid)]
    job_id: RequestId,
    /// Its status.
    state: Status,
}
