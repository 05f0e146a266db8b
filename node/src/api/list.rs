//! The requests of a kind: by their ids, or newest first, page by page.

use std::{collections::HashSet, sync::Arc};

use axum::{
    Json,
    extract::{FromRequestParts, Query, State},
    http::{header::LINK, request::Parts},
    response::{IntoResponse, Response},
};
use chrono::{DateTime, Utc};
use serde::Serialize;
use tidegate::{
    internals::store::{Page, PageQuery},
    request::{RequestId, Status},
};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{
    answers::PublicStatus,
    batch::{self, BatchInProgress, EndedBatch},
    context::Api,
    openapi::refusals::{Call, OfJob, Refusals, WithQuery},
    path::KindPath,
    problem::{INVALID_PARAMETER, Problem},
    submit::{TIME_FORM, refusal},
};
use crate::state::access::Caller;

pub(super) const LIMIT_DEFAULT: i32 = 100;
const LIMIT_MAX: i32 = 1000;

/// The query of a list.
#[derive(Debug, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct ListQuery {
    /// The requests with these ids, in this order; it goes with no other parameter.
    #[param(rename = "id", value_type = Vec<Uuid>, required = false, max_items = 100)]
    ids: Vec<RequestId>,
    /// Only requests in this state; repeat it for several.
    #[param(rename = "state", required = false)]
    statuses: Vec<Status>,
    /// Only requests submitted at this time or later.
    #[param(nullable = false, example = "2030-01-31T12:00:00Z")]
    since: Option<DateTime<Utc>>,
    /// Where to go on: `next` of the page before.
    #[param(rename = "cursor", value_type = Option<String>, nullable = false, pattern = "^[0-9a-f]{32}$")]
    before: Option<Uuid>,
    /// How many at most: 100 without it.
    // Not as `default`: generated clients would send that beside ids, too.
    #[param(minimum = 1, maximum = 1000, required = false)]
    limit: i32,
}

impl<S: Send + Sync> FromRequestParts<S> for ListQuery {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Query(pairs) = Query::<Vec<(String, String)>>::from_request_parts(parts, state)
            .await
            .map_err(|error| INVALID_PARAMETER.because(error.body_text()))?;
        let (mut ids, mut page) = (Vec::new(), PageQuery { limit: LIMIT_DEFAULT, ..PageQuery::default() });
        let mut names = HashSet::new();
        for (name, value) in &pairs {
            if name == "id" {
                let id = value.parse();
                ids.push(id.map_err(|_| INVALID_PARAMETER.because("id has to be a job id, which is a UUID"))?);
            } else if !read_page_parameter(&mut page, name, value)? {
                return Err(INVALID_PARAMETER.because("a list takes id, state, since, cursor and limit, nothing else"));
            }
            if !names.insert(name) && !["id", "state"].contains(&name.as_str()) {
                return Err(INVALID_PARAMETER.because(format!("{name} occurs twice")));
            }
        }
        let query = Self { ids, statuses: page.statuses, since: page.since, before: page.before, limit: page.limit };
        if query.ids.len() > batch::POLLED_MAX {
            let detail = format!("id names 1 to {} requests, not {}", batch::POLLED_MAX, query.ids.len());
            return Err(INVALID_PARAMETER.because(detail));
        }
        if !query.ids.is_empty() && names.len() > 1 {
            return Err(INVALID_PARAMETER.because("a list by id takes no other parameter"));
        }
        Ok(query)
    }
}

/// Reads a parameter that all lists of requests have; returns whether it is one.
pub(super) fn read_page_parameter(page: &mut PageQuery, name: &str, value: &str) -> Result<bool, Problem> {
    let expected = |form: &str| INVALID_PARAMETER.because(format!("{name} has to be {form}"));
    match name {
        "state" => page.statuses.push(value.parse().map_err(|_| expected(&state_form()))?),
        "since" => page.since = Some(read_time(name, value)?),
        // Opaque to callers, so its form may change.
        "cursor" => {
            let cursor = Uuid::try_parse(value).ok().filter(|_| value.len() == 32);
            page.before = Some(cursor.ok_or_else(|| expected("`next` of the page before"))?);
        }
        "limit" => {
            let limit = value.parse().ok().filter(|limit| (1..=LIMIT_MAX).contains(limit));
            page.limit = limit.ok_or_else(|| expected("a number from 1 to 1000"))?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// A parameter that is a time.
pub(super) fn read_time(name: &str, value: &str) -> Result<DateTime<Utc>, Problem> {
    let time = DateTime::parse_from_rfc3339(value);
    let time = time.map_err(|_| INVALID_PARAMETER.because(format!("{name} has to be {TIME_FORM}")))?;
    Ok(time.to_utc())
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

fn state_form() -> String {
    let states: Vec<_> = Status::ALL.iter().map(|status| status.as_str()).collect();
    format!("one of {}; repeat it for several", states.join(", "))
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

/// The answer of a list that is complete.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes two answers")]
enum List {
    #[schema(title = "A page")]
    Page(ListPage),
    #[schema(title = "All of the named requests have ended")]
    Batch(EndedBatch),
}

/// List requests, newest first, or poll several at once.
///
/// The requests that the caller may read. `next`, also as a `Link` with `rel="next"`, is where to go on; null on the
/// last page. A page reads some ten thousand requests at most, so one may be short, or empty, and still not be the
/// last.
///
/// With `id`, once for each of up to 100 requests, it is a poll of all of them: 200 when all have ended, 202 as long as
/// one is under way, with one `Retry-After`, that of the request which is expected to end last; 404 if there is no such
/// request of this kind for one of the ids. The answer to a batch has this address as its `Location`.
#[utoipa::path(
    get,
    path = "/v1/{kind}",
    params(KindPath, ListQuery),
    responses(
        (
            status = 200,
            description = "A page of them; or all of the named requests, which have ended",
            body = List,
            headers(("Link" = String, description = "Where the next page is, with `rel=\"next\"`; none after the last one")),
        ),
        (status = 202, description = "Of the named requests one is under way: poll again", body = BatchInProgress),
        Refusals<(Call, OfJob, WithQuery)>,
    ),
)]
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    KindPath { kind }: KindPath,
    caller: Caller,
    query: ListQuery,
) -> Result<Response, Problem> {
    if !query.ids.is_empty() {
        return batch::poll(&api, &kind, &caller, &query.ids).await;
    }
    let page_query = PageQuery {
        kind: Some(kind.clone()),
        statuses: query.statuses.clone(),
        since: query.since,
        before: query.before,
        submitter: caller.reads_only().map(str::to_owned),
        limit: query.limit,
        ..PageQuery::default()
    };
    let page = api.store.list_requests(&page_query).await;
    let Page { requests, next } = page.map_err(|error| refusal(&error, &kind))?;
    let link = next.map(|next| {
        let path = format!("/v1/{}", kind.replace('_', "-"));
        [(LINK, format!("<{path}?{}>; rel=\"next\"", query.next(next)))]
    });
    let next = next.map(|next| next.simple().to_string());
    let listed = requests.into_iter().map(|request| ListedJob {
        job_id: request.id,
        status: request.status.into(),
        state: request.status,
        submitter: request.submitter,
        submitted_at: request.submitted_at,
        finished_at: request.finished_at,
    });
    let requests = listed.collect();
    Ok((link, Json(ListPage { requests, next })).into_response())
}
