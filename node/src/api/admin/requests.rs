//! Single requests: ending one by hand.

use std::sync::Arc;

use axum::{Json as JsonAnswer, extract::State};
use serde::{Deserialize, Serialize};
use tidegate::{
    internals::store::Failed,
    request::{RequestId, Status},
};
use utoipa::ToSchema;

use super::{AdminStore, Answer, RequestPath};
use crate::api::{
    body::Json,
    context::Api,
    openapi::{
        refusals::{Call, Changing, Ending, OfRequest, Refusals, WithBody},
        schemas,
    },
    path::unknown,
    problem::ILLEGAL_STATE,
};

/// Why a request is ended.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Failure {
    /// The message of the request's error: its caller receives it.
    #[schema(min_length = 1, max_length = 1000)]
    reason: String,
}

/// A request that has failed.
#[derive(Serialize, ToSchema)]
pub(super) struct FailedJob {
    #[schema(schema_with = schemas::failed)]
    outcome: &'static str,
    #[schema(value_type = uuid::Uuid)]
    job_id: RequestId,
    /// Its status.
    state: Status,
}

/// Fail a live request as an internal error.
///
/// Whatever its status, also in flight: then it may have been sent. Its history has the caller's name. 409 when it has
/// ended.
#[utoipa::path(
    post,
    path = "/v1/admin/requests/{job_id}/fail",
    params(RequestPath),
    request_body(content = Failure),
    responses(
        (status = 200, description = "The request has failed", body = FailedJob),
        Refusals<(Call, OfRequest, WithBody, Changing, Ending)>,
    ),
)]
pub(super) async fn fail(
    State(api): State<Arc<Api>>,
    AdminStore(store): AdminStore,
    RequestPath { id }: RequestPath,
    Json(failure): Json<Failure>,
) -> Answer<FailedJob> {
    match store.fail_request(id, &failure.reason).await? {
        Failed::Ended(status) => {
            Err(ILLEGAL_STATE.because(format!("the request is {status}; only a live request can be failed")))
        }
        Failed::Unknown => Err(unknown(id)),
        Failed::Failed => {
            let (job_id, state) = (id, Status::Failure);
            api.moved(job_id, state);
            let outcome = "failed";
            Ok(JsonAnswer(FailedJob { outcome, job_id, state }))
        }
    }
}
