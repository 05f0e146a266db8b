//! Requests of all kinds: newest first, page by page, and those that have waited longest.

use std::{collections::HashSet, sync::Arc};

use axum::{
    Json,
    extract::{FromRequestParts, Query, State},
    http::request::Parts,
};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use tidegate::{
    internals::store::{ListedRequest, Page, PageQuery, WaitingRequest},
    request::{Executed, Status},
};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{Answer, PAGE, PAGE_MAX, read_query};
use crate::api::{
    context::Api,
    list::{LIMIT_DEFAULT, read_page_parameter, read_time},
    openapi::{
        refusals::{Call, OfKind, OfQueue, Refusals, WithQuery},
        schemas,
    },
    problem::{INVALID_PARAMETER, Problem},
};

/// Which requests to list; `read` fills a [`PageQuery`].
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes the parameters")]
pub(super) struct RequestsQuery {
    /// Only this kind, as the database names it.
    #[param(nullable = false, example = "direct")]
    kind: Option<String>,
    /// Only requests in this state; repeat it for several.
    #[param(rename = "state", required = false)]
    statuses: Vec<Status>,
    /// Only those of this submitter.
    #[param(nullable = false)]
    submitter: Option<String>,
    /// Only those in this queue, waiting or held by a worker.
    #[param(nullable = false, example = "tx")]
    queue: Option<String>,
    /// Only requests submitted at this time or later.
    #[param(nullable = false, example = "2030-01-31T12:00:00Z")]
    since: Option<DateTime<Utc>>,
    /// Only requests submitted before this time.
    #[param(nullable = false, example = "2030-01-31T12:00:00Z")]
    until: Option<DateTime<Utc>>,
    /// Only those whose last transition has this cause, or whose error this code.
    #[param(nullable = false, example = "deadline_exceeded")]
    cause: Option<String>,
    /// Only those of which this is known.
    #[param(required = false, schema_with = schemas::executed)]
    executed: Option<Executed>,
    /// Only those with at least as many sends.
    #[param(nullable = false, minimum = 0)]
    attempts: Option<i32>,
    /// Where to go on: `next` of the page before.
    #[param(nullable = false, pattern = "^[0-9a-f]{32}$")]
    cursor: Option<String>,
    /// How many at most.
    #[param(nullable = false, minimum = 1, maximum = 1000, default = 100)]
    limit: Option<i32>,
}

/// The page that a query names.
pub(super) struct Asked(PageQuery);

impl<S: Send + Sync> FromRequestParts<S> for Asked {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Query(pairs) = Query::<Vec<(String, String)>>::from_request_parts(parts, state)
            .await
            .map_err(|error| INVALID_PARAMETER.because(error.body_text()))?;
        let mut page = PageQuery { limit: LIMIT_DEFAULT, ..PageQuery::default() };
        let mut names = HashSet::new();
        for (name, value) in &pairs {
            if value.contains('\0') {
                return Err(INVALID_PARAMETER.because(format!("{name} is text")));
            }
            let expected = |form: &str| INVALID_PARAMETER.because(format!("{name} has to be {form}"));
            match name.as_str() {
                "kind" => page.kind = Some(value.clone()),
                "submitter" => page.submitter = Some(value.clone()),
                "queue" => page.queue = Some(value.clone()),
                "until" => page.until = Some(read_time(name, value)?),
                "cause" => page.cause = Some(value.clone()),
                "executed" => page.executed = Some(value.parse().map_err(|_| expected("yes, no or unknown"))?),
                "attempts" => {
                    let attempts = value.parse().ok().filter(|attempts| *attempts >= 0);
                    page.attempts = Some(attempts.ok_or_else(|| expected("a number from 0"))?);
                }
                _ if read_page_parameter(&mut page, name, value)? => {}
                _ => {
                    return Err(INVALID_PARAMETER.because(
                        "a list takes kind, state, submitter, queue, since, until, cause, executed, attempts, cursor and \
                         limit, nothing else",
                    ));
                }
            }
            if !names.insert(name) && name != "state" {
                return Err(INVALID_PARAMETER.because(format!("{name} occurs twice")));
            }
        }
        Ok(Self(page))
    }
}

/// A page of requests of any kind.
#[derive(Serialize, ToSchema)]
#[schema(as = RequestPage)]
pub(super) struct Requests {
    /// Newest first. There may be none, and still a next page.
    requests: Vec<ListedRequest>,
    /// The `cursor` of the next page; null: there is none.
    #[schema(required)]
    next: Option<String>,
}

/// Requests of all kinds and submitters, newest first.
///
/// A page reads some ten thousand requests at most, so one may be short, or empty, and still not be the last: `next` is
/// where to go on. 404 for an unknown kind or queue.
#[utoipa::path(
    get,
    path = "/v1/admin/requests",
    params(RequestsQuery),
    responses(
        (status = 200, description = "A page of them", body = Requests),
        Refusals<(Call, OfKind, OfQueue, WithQuery)>,
    ),
)]
pub(super) async fn requests(State(api): State<Arc<Api>>, Asked(query): Asked) -> Answer<Requests> {
    let Page { requests, next } = api.store.list_requests(&query).await?;
    let next = next.map(|next: Uuid| next.simple().to_string());
    Ok(Json(Requests { requests, next }))
}

/// Which waiting requests to list.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct WaitingQuery {
    /// Only those in this queue.
    #[param(nullable = false, example = "tx")]
    queue: Option<String>,
    /// How many at most.
    #[param(nullable = false, minimum = 1, maximum = 1000, default = 100)]
    limit: Option<i32>,
}

impl<S: Send + Sync> FromRequestParts<S> for WaitingQuery {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let query: Self = read_query(parts)?;
        if query.limit.is_some_and(|limit| !(1..=PAGE_MAX).contains(&limit)) {
            return Err(INVALID_PARAMETER.because(format!("limit is 1 to {PAGE_MAX}")));
        }
        if query.queue.as_ref().is_some_and(|queue| queue.contains('\0')) {
            return Err(INVALID_PARAMETER.because("queue is text"));
        }
        Ok(query)
    }
}

/// Requests that wait.
#[derive(Serialize, ToSchema)]
#[schema(as = WaitingRequests)]
pub(super) struct Waiting {
    /// Those that have waited longest, first.
    requests: Vec<WaitingRequest>,
}

/// The requests that a worker could take now, those that have waited longest first.
///
/// Found at the heads of the queues, whatever their depth.
#[utoipa::path(
    get,
    path = "/v1/admin/requests/waiting",
    params(WaitingQuery),
    responses(
        (status = 200, description = "The requests", body = Waiting),
        Refusals<(Call, OfQueue, WithQuery)>,
    ),
)]
pub(super) async fn waiting(State(api): State<Arc<Api>>, query: WaitingQuery) -> Answer<Waiting> {
    let limit = query.limit.unwrap_or(PAGE);
    let requests = api.store.first_waiting(query.queue.as_deref(), limit).await?;
    Ok(Json(Waiting { requests }))
}
