//! Submitting a request.

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts, State},
    http::{header::LOCATION, request::Parts},
    response::Response,
};
use chrono::{DateTime, Utc};
use tidegate::{
    internals::{
        api_key::Scope,
        error::StoreError,
        store::{Admission, GateRow, SameKey, Submission, Submitted},
    },
    request::JsonText,
    retry_after::RetryAfter,
};

use super::{
    answers::{self, Ended, InProgress},
    body::Json,
    context::Api,
    openapi::{
        refusals::{Call, CallingBack, OfKind, Refusals, Submitting, WithBody},
        schemas,
    },
    path::{KindPath, location, unknown},
    problem::{GATE_CLOSED, INVALID_HEADER, Problem, UNKNOWN_KIND},
    traced,
    waiting::Wait,
};
use crate::state::access::{Caller, Refusal};

pub(super) const IDEMPOTENCY_KEY: &str = "Idempotency-Key";
pub(super) const ADMISSION: &str = "Tidegate-Admission";
pub(super) const REPLAYED: &str = "Idempotency-Replayed";

/// The form of a time in a header or a query.
pub(super) const TIME_FORM: &str = "a time in RFC 3339, such as 2030-01-31T12:00:00Z";

/// The headers of a submission.
#[derive(Debug, utoipa::IntoParams)]
#[into_params(parameter_in = Header)]
pub(super) struct SubmissionHeaders {
    /// Makes repeating safe: the same key with the same payload is the same request. 1 to 255 visible characters. Some
    /// kinds require it.
    #[param(rename = "Idempotency-Key", nullable = false)]
    #[param(min_length = 1, max_length = 255, pattern = "^[!-~]+$")]
    pub(super) idempotency_key: Option<String>,
    /// The earliest start, in RFC 3339.
    #[param(rename = "Tidegate-Not-Before", schema_with = schemas::time_text, required = false)]
    #[param(example = "2030-01-31T12:00:00Z")]
    pub(super) not_before: Option<DateTime<Utc>>,
    /// `accepted`: the work was accepted elsewhere, so no closed gate and no full quota refuses it. A key needs the scope
    /// `submit-accepted` for it.
    #[param(rename = "Tidegate-Admission", value_type = Option<String>, nullable = false, required = false)]
    #[param(pattern = "^accepted$", example = "accepted")]
    pub(super) admission: Admission,
    /// The URL that is called when the request ends; the operator has to allow its host first.
    #[param(rename = "Tidegate-Callback-Url", nullable = false)]
    #[param(example = "https://hooks.example.com/done")]
    pub(super) callback_url: Option<String>,
    /// The place of the submission in its caller's trace, as W3C Trace Context has it. An invalid one is ignored.
    #[param(rename = "traceparent", nullable = false)]
    #[param(example = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")]
    pub(super) traceparent: Option<String>,
}

impl SubmissionHeaders {
    /// Refuses a caller whose key lacks the scope for these headers.
    pub(super) fn authorise(&self, caller: &Caller) -> Result<(), Refusal> {
        match self.admission {
            Admission::Enforce => Ok(()),
            Admission::Accepted => caller.require(Scope::SubmitAccepted),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for SubmissionHeaders {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let owned = |text: &str| Some(text.to_owned());
        Ok(Self {
            idempotency_key: header(parts, IDEMPOTENCY_KEY, "1 to 255 visible ASCII characters", |key| {
                let valid = (1..=255).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic());
                owned(key).filter(|_| valid)
            })?,
            not_before: header(parts, "Tidegate-Not-Before", TIME_FORM, |text| {
                Some(DateTime::parse_from_rfc3339(text).ok()?.to_utc())
            })?,
            admission: header(parts, ADMISSION, "\"accepted\"", |word| {
                (word == "accepted").then_some(Admission::Accepted)
            })?
            .unwrap_or_default(),
            // The database checks whether the URL is allowed.
            callback_url: header(parts, "Tidegate-Callback-Url", "a URL in visible ASCII", owned)?,
            traceparent: traced::traceparent(parts),
        })
    }
}

/// The only value of a header; two are refused, because neither has precedence.
fn header<T>(
    parts: &Parts,
    name: &str,
    expected: &str,
    parse: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, Problem> {
    let mut values = parts.headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(INVALID_HEADER.because(format!("{name} occurs twice")));
    }
    match value.to_str().ok().and_then(parse) {
        Some(parsed) => Ok(Some(parsed)),
        None => Err(INVALID_HEADER.because(format!("{name} has to be {expected}"))),
    }
}

/// Submit a request.
///
/// 202 when the request is stored, durably; a replay answers as a poll of the earlier request does, marked
/// `Idempotency-Replayed: true`. With `Prefer: wait=N`, 202 comes only when N seconds have passed since then, and 200
/// with the result as soon as there is one. 429 when the gate is closed, 422 when the key stands for another payload.
///
/// After 503, or without an answer, the request may or may not be stored: to submit it again under the same
/// `Idempotency-Key` is safe.
#[utoipa::path(
    post,
    path = "/v1/{kind}",
    params(KindPath, SubmissionHeaders, Wait),
    request_body(content = schemas::Json, description = "The payload: any JSON"),
    responses(
        (
            status = 202,
            description = "The request is stored, durably; or it was stored before, under this key, and is under way",
            body = InProgress,
            headers(("Location" = String, description = "Where to poll")),
        ),
        (
            status = 200,
            description = "The request has ended: it was submitted before, under this key, or the caller has waited",
            body = Ended,
            headers(("Location" = String, description = "Where to poll")),
        ),
        Refusals<(Call, OfKind, WithBody, Submitting, CallingBack)>,
    ),
)]
pub(super) async fn submit(
    State(api): State<Arc<Api>>,
    KindPath { kind }: KindPath,
    caller: Caller,
    headers: SubmissionHeaders,
    mut wait: Wait,
    Json(payload): Json<JsonText>,
) -> axum::response::Result<Response> {
    headers.authorise(&caller)?;
    let submission = Submission {
        kind: kind.clone(),
        payload,
        idempotency_key: headers.idempotency_key,
        same_key: SameKey::Compare,
        submitter: caller.submitter().map(str::to_owned),
        admission: headers.admission,
        not_before: headers.not_before,
        traceparent: headers.traceparent,
        callback_url: headers.callback_url,
    };
    // `at_gate` has asked the gate.
    let submitted = api.node.submit_past_gate(submission).await;
    match submitted.map_err(|error| refusal(&error, &kind))? {
        Submitted::Accepted(ticket) => {
            tracing::debug!(request.id = %ticket.id, request.kind = kind, "stored");
            let location = [(LOCATION, location(&kind, ticket.id))];
            let ended = wait.for_end(&api, ticket.id, ticket.status).await?;
            let answer = ended.map_or_else(|| answers::accepted(&ticket), answers::answer);
            Ok(wait.applied((location, answer)))
        }
        Submitted::Replayed(ticket) => {
            let replayed = [(REPLAYED, "true")];
            let location = [(LOCATION, location(&kind, ticket.id))];
            let progress = api.node.outlooks.read(ticket.id, None).await;
            let progress = progress.map_err(|error| Problem::from(&*error))?;
            let outlook = progress.ok_or_else(|| unknown(ticket.id))?.outlook;
            let ended = wait.for_end(&api, ticket.id, outlook.status).await?;
            let answer = answers::answer(ended.unwrap_or(outlook));
            Ok(wait.applied((replayed, location, answer)))
        }
        Submitted::Refused { retry_after } => {
            let gate = api.node.gates.of_submission(&kind, caller.submitter(), true);
            Err(gate_closed(retry_after, gate.as_ref()).into())
        }
    }
}

/// The answer of a closed gate, with the time to submit again. It names the gate that is closed by the node's copy.
pub(super) fn gate_closed(retry_after: RetryAfter, gate: Option<&GateRow>) -> Problem {
    let seconds = retry_after.as_secs();
    let gate = gate.filter(|gate| !gate.accepting).map(GateRow::public_name);
    let detail = match gate {
        Some(gate) => format!("gate \"{gate}\" is closed; nothing was stored; submit again in {seconds} s"),
        None => format!("nothing was stored; submit again in {seconds} s"),
    };
    GATE_CLOSED.because(detail).after(retry_after).at(gate)
}

/// The problem for a failed submission. An unknown kind is named as in the path.
pub(super) fn refusal(error: &StoreError, kind: &str) -> Problem {
    match error {
        StoreError::UnknownKind(_) => UNKNOWN_KIND.because(format!("there is no kind \"{}\"", kind.replace('_', "-"))),
        error => error.into(),
    }
}
