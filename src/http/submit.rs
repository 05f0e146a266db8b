//! Submitting a request.

use std::{slice, sync::Arc};

use axum::{
    extract::{FromRequestParts, State},
    http::{HeaderName, HeaderValue, header::LOCATION, request::Parts},
    response::{IntoResponse, Response},
};
use chrono::{DateTime, Utc};
use serde_json::value::RawValue;

use super::{
    Api,
    access::Caller,
    answers::{self, Ended, InProgress},
    body::Json,
    openapi::{
        parameters::{KindParameter, PreferParameter},
        refusals::{Call, CallingBack, OfKind, Refusals, Submitting, WithBody},
        schemas,
    },
    path::{KindPath, location, unknown},
    problem::{GATE_CLOSED, INVALID_HEADER, Problem, UNKNOWN_KIND},
    waiting::Wait,
};
use crate::{
    error::StoreError,
    retry_after::RetryAfter,
    store::{Admission, Submission, Submitted},
};

pub(super) static IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
static NOT_BEFORE: HeaderName = HeaderName::from_static("tidegate-not-before");
static CALLBACK_URL: HeaderName = HeaderName::from_static("tidegate-callback-url");
pub(super) static REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// What a submission's headers ask for.
#[derive(Debug, utoipa::IntoParams)]
#[into_params(parameter_in = Header)]
pub(super) struct Wishes {
    /// Makes repeating safe: the same key with the same payload is the same request. 1 to 255 visible characters.
    #[param(
        rename = "Idempotency-Key",
        min_length = 1,
        max_length = 255,
        pattern = "^[!-~]+$",
        nullable = false
    )]
    pub(super) idempotency_key: Option<String>,
    /// The earliest start, in RFC 3339.
    #[param(rename = "Tidegate-Not-Before", nullable = false, example = "2030-01-31T12:00:00Z")]
    pub(super) not_before: Option<DateTime<Utc>>,
    /// Who is told when the request ends; the operator has to allow its host first.
    #[param(
        rename = "Tidegate-Callback-Url",
        nullable = false,
        example = "https://hooks.example.com/done"
    )]
    pub(super) callback_url: Option<String>,
}

impl<S: Send + Sync> FromRequestParts<S> for Wishes {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Ok(Self {
            idempotency_key: single(parts, &IDEMPOTENCY_KEY)?.map(key).transpose()?,
            not_before: single(parts, &NOT_BEFORE)?.map(time).transpose()?,
            callback_url: single(parts, &CALLBACK_URL)?.map(url).transpose()?,
        })
    }
}

/// A header's value; two of one would leave open which counts.
fn single<'a>(parts: &'a Parts, name: &HeaderName) -> Result<Option<&'a HeaderValue>, Problem> {
    let mut values = parts.headers.get_all(name).iter();
    let value = values.next();
    match values.next() {
        None => Ok(value),
        Some(_) => Err(INVALID_HEADER.because(format!("{name} is there twice"))),
    }
}

fn key(value: &HeaderValue) -> Result<String, Problem> {
    match value.to_str() {
        Ok(key) if (1..=255).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Ok(key.to_owned())
        }
        _ => Err(INVALID_HEADER.because("Idempotency-Key has 1 to 255 visible ASCII characters")),
    }
}

fn time(value: &HeaderValue) -> Result<DateTime<Utc>, Problem> {
    value
        .to_str()
        .ok()
        .and_then(|text| DateTime::parse_from_rfc3339(text).ok())
        .map(|time| time.to_utc())
        .ok_or_else(|| {
            INVALID_HEADER.because("Tidegate-Not-Before is a time in RFC 3339, such as 2030-01-31T12:00:00Z")
        })
}

/// The database says which URLs may be named; this only sees to it that it gets text.
fn url(value: &HeaderValue) -> Result<String, Problem> {
    value
        .to_str()
        .map(str::to_owned)
        .map_err(|_| INVALID_HEADER.because("Tidegate-Callback-Url is a URL in visible ASCII characters"))
}

/// `POST /v1/{kind}`: 202 when the request is stored, durably; a replay answers as a poll of the earlier request does,
/// marked `Idempotency-Replayed: true`. With `Prefer: wait=N`, 202 comes only when N seconds have passed since then, and
/// 200 with the result as soon as there is one. 429 when the gate is closed, 422 when the key stands for another payload.
///
/// A caller who gets 503, or nothing, does not know whether the request was stored, and is safe to submit it again
/// under the same `Idempotency-Key`.
#[utoipa::path(
    post,
    path = "/v1/{kind}",
    operation_id = "submit",
    tag = "requests",
    summary = "Submit a request",
    params(KindParameter, Wishes, PreferParameter),
    request_body(content = schemas::Json, description = "The payload: any JSON"),
    responses(
        (
            status = 202,
            description = "The request is stored, durably; or it was stored before, under this key, and is under way",
            body = InProgress,
            headers(
                ("Location" = String, description = "Where to poll"),
                ("Idempotency-Replayed" = String, description = "`true` when the key was known"),
                ("Preference-Applied" = String, description = "The wait that counted"),
            ),
        ),
        (
            status = 200,
            description = "The request has ended: it was submitted before, under this key, or the caller has waited",
            body = Ended,
            headers(
                ("Location" = String, description = "Where to poll"),
                ("Idempotency-Replayed" = String, description = "`true` when the key was known"),
                ("Preference-Applied" = String, description = "The wait that counted"),
            ),
        ),
        Refusals<(Call, OfKind, WithBody, Submitting, CallingBack)>,
    ),
    security((), ("api_key" = ["submit"])),
)]
pub(super) async fn submit(
    State(api): State<Arc<Api>>,
    KindPath { kind }: KindPath,
    caller: Caller,
    wishes: Wishes,
    mut wait: Wait,
    Json(payload): Json<Box<RawValue>>,
) -> axum::response::Result<Response> {
    let submission = Submission {
        kind: kind.clone(),
        payload,
        idempotency_key: wishes.idempotency_key,
        submitter: caller.submitter().map(str::to_owned),
        admission: Admission::Enforce,
        not_before: wishes.not_before,
    };
    let submitted = if let Some(callback_url) = &wishes.callback_url {
        // Alone: the callback commits with its request.
        let submitted = api.store.submit_with_callback(&submission, callback_url);
        submitted.await.map_err(Arc::new)
    } else if submission.not_before.is_some() {
        // A group has one start for all.
        submit_alone(&api, &submission).await.map_err(Arc::new)
    } else {
        api.submitter.submit(submission).await
    };
    let submitted = submitted.map_err(|error| {
        api.metrics.submission_failed(&kind, &error);
        refusal(&error, &kind)
    })?;
    api.metrics.submitted(&kind, &submitted);

    match submitted {
        Submitted::Accepted(ticket) => {
            let location = [(LOCATION, location(&kind, ticket.id))];
            let ended = wait.for_end(&api, ticket.id, ticket.status).await?;
            let answer = ended.map_or_else(|| answers::accepted(&ticket), answers::answer);
            Ok(wait.applied((location, answer).into_response()))
        }
        Submitted::Replayed(ticket) => {
            let replayed = [
                (REPLAYED.clone(), "true".to_owned()),
                (LOCATION, location(&kind, ticket.id)),
            ];
            let outlook = api.store.outlook(ticket.id).await;
            let outlook = outlook.map_err(Problem::from)?.ok_or_else(|| unknown(ticket.id))?;
            let ended = wait.for_end(&api, ticket.id, outlook.status).await?;
            let answer = answers::answer(ended.unwrap_or(outlook));
            Ok(wait.applied((replayed, answer).into_response()))
        }
        Submitted::Refused { retry_after } => {
            let submitter = caller.submitter();
            let retry_after = api.gates.in_turn(&kind, submitter, retry_after, 1);
            Err(gate_closed(retry_after).into())
        }
    }
}

/// A submission with a start of its own is a group of one.
async fn submit_alone(api: &Api, submission: &Submission) -> Result<Submitted, StoreError> {
    let submitted = api
        .store
        .submit_group(
            &submission.kind,
            slice::from_ref(&submission.payload),
            Some(slice::from_ref(&submission.idempotency_key)),
            Some(slice::from_ref(&submission.submitter)),
            submission.not_before,
            None,
        )
        .await?;
    submitted
        .into_iter()
        .next()
        .ok_or_else(|| StoreError::NotMigrated("submit_group answers for another number of requests".to_owned()))
}

/// A gate that refuses, and when to submit again.
pub(super) fn gate_closed(retry_after: RetryAfter) -> Problem {
    let seconds = retry_after.as_secs();
    let detail = format!("nothing was stored; submit again in {seconds} s");
    GATE_CLOSED.because(detail).after(retry_after)
}

/// Unknown kinds in the words of the path; everything else as the database says it.
pub(super) fn refusal(error: &StoreError, kind: &str) -> Problem {
    match error {
        StoreError::UnknownKind(_) => UNKNOWN_KIND.because(format!("there is no kind \"{}\"", kind.replace('_', "-"))),
        error => error.into(),
    }
}
