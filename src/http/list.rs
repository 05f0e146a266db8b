//! The requests of a kind, newest first, page by page.

use std::sync::Arc;

use axum::{
    Json,
    extract::{FromRequestParts, Query, State},
    http::{header::LINK, request::Parts},
    response::{IntoResponse, Response},
};
use chrono::{DateTime, Utc};
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{
    Api,
    access::Caller,
    answers::PublicStatus,
    openapi::refusals::{Call, OfKind, Refusals, WithQuery},
    path::KindPath,
    problem::{INVALID_PARAMETER, Problem},
    submit::refusal,
};
use crate::{
    request::{RequestId, Status},
    store::{Page, PageQuery},
};

const LIMIT_DEFAULT: i32 = 100;
const LIMIT_MAX: i32 = 1000;

/// The query of a list.
#[derive(Debug, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// Only requests in this state; repeat it for several.
    #[param(rename = "state", required = false)]
    statuses: Vec<Status>,
    /// Only requests submitted at this time or later.
    #[param(nullable = false, example = "2030-01-31T12:00:00Z")]
    since: Option<DateTime<Utc>>,
    /// Where to go on: `next` of the page before.
    #[param(rename = "cursor", value_type = Option<String>, nullable = false, pattern = "^[0-9a-f]{32}$")]
    before: Option<Uuid>,
    /// How many at most.
    #[param(minimum = 1, maximum = 1000, default = 100, required = false)]
    limit: i32,
}

impl<S: Send + Sync> FromRequestParts<S> for ListQuery {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Query(pairs) = Query::<Vec<(String, String)>>::from_request_parts(parts, state)
            .await
            .map_err(|error| INVALID_PARAMETER.because(error.body_text()))?;
        let mut statuses = Vec::new();
        let (mut since, mut before, mut limit) = (None, None, None);
        for (name, value) in &pairs {
            match name.as_str() {
                "state" => statuses.push(valid(value.parse().ok(), || {
                    let known: Vec<_> = Status::ALL.iter().map(|status| status.as_str()).collect();
                    format!("a state is one of {}; repeat it for several", known.join(", "))
                })?),
                "since" => once(&mut since, name, DateTime::parse_from_rfc3339(value).ok(), || {
                    "since is a time in RFC 3339, such as 2030-01-31T12:00:00Z".to_owned()
                })?,
                // Opaque to callers, so its form may change.
                "cursor" => {
                    let cursor = Uuid::try_parse(value).ok().filter(|_| value.len() == 32);
                    once(&mut before, name, cursor, || {
                        "cursor is `next` of the page before".to_owned()
                    })?;
                }
                "limit" => {
                    let size = value.parse().ok().filter(|size| (1..=LIMIT_MAX).contains(size));
                    once(&mut limit, name, size, || {
                        format!("limit is a number from 1 to {LIMIT_MAX}")
                    })?;
                }
                _ => return Err(INVALID_PARAMETER.because("a list takes state, since, cursor and limit, nothing else")),
            }
        }
        Ok(Self {
            statuses,
            since: since.map(|since| since.to_utc()),
            before,
            limit: limit.unwrap_or(LIMIT_DEFAULT),
        })
    }
}

impl ListQuery {
    /// The query string of the next page: the same filters, with its cursor.
    fn next(&self, next: Uuid) -> String {
        let mut query = format!("cursor={}&limit={}", next.simple(), self.limit);
        for status in &self.statuses {
            query.push_str(&format!("&state={status}"));
        }
        if let Some(since) = self.since {
            // In UTC with a Z: a plus sign would mean a space here.
            let since = since.to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true);
            query.push_str(&format!("&since={since}"));
        }
        query
    }
}

fn once<T>(
    slot: &mut Option<T>,
    name: &str,
    value: Option<T>,
    expected: impl FnOnce() -> String,
) -> Result<(), Problem> {
    match slot.replace(valid(value, expected)?) {
        None => Ok(()),
        Some(_) => Err(INVALID_PARAMETER.because(format!("{name} occurs twice"))),
    }
}

fn valid<T>(value: Option<T>, expected: impl FnOnce() -> String) -> Result<T, Problem> {
    value.ok_or_else(|| INVALID_PARAMETER.because(expected()))
}

/// A page of requests.
#[derive(Serialize, ToSchema)]
#[schema(as = Page)]
struct ListPage {
    /// Newest first. There may be none, and still a next page.
    requests: Vec<ListedJob>,
    /// The `cursor` of the next page; null: there is none.
    #[schema(required)]
    next: Option<String>,
}

/// A request of a list.
#[derive(Serialize, ToSchema)]
#[schema(as = ListedRequest)]
struct ListedJob {
    #[schema(value_type = Uuid)]
    job_id: RequestId,
    #[schema(inline)]
    status: PublicStatus,
    /// Its status.
    state: Status,
    /// The submitter; null: it was submitted without an API key.
    #[schema(required)]
    submitter: Option<String>,
    submitted_at: DateTime<Utc>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    finished_at: Option<DateTime<Utc>>,
}

/// `GET /v1/{kind}`: the requests that the caller may see, newest first. `next`, also as a `Link` with `rel="next"`, is
/// where to go on; null on the last page. A page looks at some ten thousand requests at most, so one may be short, or
/// empty, and still not be the last.
#[utoipa::path(
    get,
    path = "/v1/{kind}",
    summary = "List requests, newest first",
    params(KindPath, ListQuery),
    responses(
        (
            status = 200,
            description = "A page of them",
            body = ListPage,
            headers(("Link" = String, description = "Where the next page is, with `rel=\"next\"`; none after the last one")),
        ),
        Refusals<(Call, OfKind, WithQuery)>,
    ),
)]
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    KindPath { kind }: KindPath,
    caller: Caller,
    query: ListQuery,
) -> Result<Response, Problem> {
    let wish = PageQuery {
        kind: kind.clone(),
        statuses: query.statuses.clone(),
        since: query.since,
        before: query.before,
        submitter: caller.sees_only().map(str::to_owned),
        limit: query.limit,
    };
    let Page { requests, next } = match api.store.list_requests(&wish).await {
        Ok(page) => page,
        Err(error) => return Err(refusal(&error, &kind)),
    };
    let link = next.map(|next| {
        let path = format!("/v1/{}", kind.replace('_', "-"));
        [(LINK, format!("<{path}?{}>; rel=\"next\"", query.next(next)))]
    });
    let body = Json(ListPage {
        requests: requests
            .into_iter()
            .map(|listed| ListedJob {
                job_id: listed.id,
                status: listed.status.into(),
                state: listed.status,
                submitter: listed.submitter,
                submitted_at: listed.submitted_at,
                finished_at: listed.finished_at,
            })
            .collect(),
        next: next.map(|next| next.simple().to_string()),
    });
    Ok((link, body).into_response())
}
