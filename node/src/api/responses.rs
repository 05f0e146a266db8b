//! Responses of the downstream: a response, a share or a verdict.

use std::sync::Arc;

use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response as HttpResponse},
};
use serde::Serialize;
use tidegate::{
    internals::{error::StoreError, store::Response},
    request::{RequestId, Status},
    retry_after::RetryAfter,
};
use utoipa::ToSchema;
use uuid::Uuid;

use super::retry_after_header::WithRetryAfter;
use super::{
    body::Json,
    context::Api,
    openapi::{
        refusals::{Call, OfJob, Refusals, Responding, WithBody},
        schemas,
    },
    path::JobPath,
    problem::{INVALID_BODY, Problem, RESPONSE_MISFIT},
};

/// A response for a request that is named by its id, or by the reference on its receipt.
#[derive(ToSchema)]
#[serde(untagged)]
#[schema(as = AddressedResponse)]
#[expect(dead_code, reason = "describes the two forms of `Response`")]
enum EitherAddress {
    #[schema(title = "By job id")]
    JobId(ByJobId),
    #[schema(title = "By reference")]
    Reference(ByReference),
}

/// Declares the schema of a body, with the member that names the request.
macro_rules! body {
    ($(#[$doc:meta])* $name:ident $schema:ident $(, $(#[$member_doc:meta])* $member:ident: $type:ty)?) => {
        $(#[$doc])*
        #[derive(ToSchema)]
        #[serde(deny_unknown_fields)]
        #[schema(as = $schema)]
        #[expect(dead_code, reason = "describes a form of `Response`")]
        struct $name {
            $($(#[$member_doc])* $member: $type,)?
            /// Which share this is, for kinds that collect several.
            part: Option<String>,
            /// The verdict, for proofs.
            accept: Option<bool>,
            /// Any JSON.
            response: schemas::Json,
        }
    };
}

body!(
    /// A response for the request with this id.
    ByJobId ResponseByJobId,
    /// The request.
    job_id: Uuid
);
body!(
    /// A response for the request whose receipt has this reference.
    ByReference ResponseByReference,
    /// The downstream's reference, from the request's receipt.
    reference: String
);
body!(
    /// A response for the request that the path names.
    ByPath ResponseByPath
);

/// The outcome of a response.
#[derive(Serialize, ToSchema)]
struct Responded {
    /// `completed`, `rejected`, `stored`, `duplicate`, `early` or `late`.
    outcome: String,
    /// The request; null for an early response.
    #[schema(value_type = Option<Uuid>, required)]
    job_id: Option<RequestId>,
    /// That request's status.
    #[schema(required)]
    state: Option<Status>,
}

/// Deliver a response, share or verdict, by job id or reference.
///
/// 200 with the outcome; 202 when it is early, that is, kept until the receipt is stored. 400 when the body is not one
/// of these or not addressed by exactly one of them, 404 for a job id that no request has, 422 when the response does
/// not fit the request's flow: a proof without a verdict, a share where none is collected.
#[utoipa::path(
    post,
    path = "/v1/responses",
    request_body(content = EitherAddress),
    responses(
        (status = 200, description = "The response is stored", body = Responded),
        (status = 202, description = "The response is early: kept until the receipt is stored", body = Responded),
        Refusals<(Call, WithBody, Responding)>,
    ),
)]
pub(super) async fn respond(State(api): State<Arc<Api>>, Json(body): Json<Response>) -> Result<HttpResponse, Problem> {
    if body.id.is_some() == body.reference.is_some() {
        return Err(INVALID_BODY.because("name the request by job_id or by reference, one of them"));
    }
    store(&api, body).await
}

/// Deliver a response, share or verdict.
///
/// As `POST /v1/responses`, addressed by the path; 404 also for an id of another kind.
#[utoipa::path(
    post,
    path = "/v1/{kind}/{job_id}/responses",
    params(JobPath),
    request_body(content = ByPath),
    responses(
        (status = 200, description = "The response is stored", body = Responded),
        (status = 202, description = "The response is early: kept until the receipt is stored", body = Responded),
        Refusals<(Call, OfJob, WithBody, Responding)>,
    ),
)]
pub(super) async fn respond_to_job(
    State(api): State<Arc<Api>>,
    job: JobPath,
    Json(body): Json<Response>,
) -> Result<HttpResponse, Problem> {
    if body.id.is_some() || body.reference.is_some() {
        return Err(INVALID_BODY.because("the path names the request: leave out job_id and reference"));
    }
    // A request never changes its kind, so the check still holds when the response is stored.
    job.authorise(&api.store).await?;
    let id = Some(job.id);
    store(&api, Response { id, ..body }).await
}

async fn store(api: &Api, response: Response) -> Result<HttpResponse, Problem> {
    let responded = api.node.responder.respond(response).await.map_err(|error| match &*error {
        // The request exists, so the response does not fit it.
        StoreError::Misuse(detail) => RESPONSE_MISFIT.because(detail.clone()),
        error => Problem::from(error),
    })?;
    if let (Some(id), Some(status), "completed" | "rejected") =
        (responded.id, responded.status, responded.outcome.as_str())
    {
        api.moved(id, status);
    }
    let early = responded.outcome == "early";
    let answer = axum::Json(Responded { outcome: responded.outcome, job_id: responded.id, state: responded.status });
    Ok(if early {
        // The sender need not repeat the call; every 202 has the header.
        (StatusCode::ACCEPTED, WithRetryAfter(RetryAfter::SOON), answer).into_response()
    } else {
        answer.into_response()
    })
}
