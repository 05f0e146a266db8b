//! The requests of a kind, newest first, page by page.

use std::{str::FromStr, sync::Arc};

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
    answers::Word,
    openapi::{
        parameters::KindParameter,
        refusals::{Call, OfKind, Refusals, WithQuery},
    },
    path::KindPath,
    problem::{INVALID_PARAMETER, Problem},
    submit::refusal,
};
use crate::{
    request::{RequestId, Status},
    store::{ListedRequest, Page, PageQuery},
};

const LIMIT_DEFAULT: i32 = 100;
const LIMIT_MAX: i32 = 1000;

/// What a list's query asks for.
#[derive(Debug, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Wishes {
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

impl<S: Send + Sync> FromRequestParts<S> for Wishes {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Query(pairs) = Query::<Vec<(String, String)>>::from_request_parts(parts, state)
            .await
            .map_err(|error| INVALID_PARAMETER.because(error.body_text()))?;
        Self::of(&pairs)
    }
}

impl Wishes {
    fn of(pairs: &[(String, String)]) -> Result<Self, Problem> {
        let mut statuses = Vec::new();
        let (mut since, mut before, mut limit) = (None, None, None);
        for (name, value) in pairs {
            match name.as_str() {
                "state" => statuses.push(parse(value, || {
                    let known: Vec<_> = Status::ALL.iter().map(|status| status.as_str()).collect();
                    format!("a state is one of {}; repeat it for several", known.join(", "))
                })?),
                "since" => once(&mut since, name, time(value)?)?,
                "cursor" => once(&mut before, name, cursor(value)?)?,
                "limit" => once(&mut limit, name, page_size(value)?)?,
                _ => {
                    return Err(INVALID_PARAMETER.because("a list takes state, since, cursor and limit, nothing else"));
                }
            }
        }
        Ok(Self {
            statuses,
            since,
            before,
            limit: limit.unwrap_or(LIMIT_DEFAULT),
        })
    }

    /// The query of the next page: the same wishes, from there on.
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

fn once<T>(slot: &mut Option<T>, name: &str, value: T) -> Result<(), Problem> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(INVALID_PARAMETER.because(format!("{name} is there twice"))),
    }
}

fn parse<T: FromStr>(value: &str, wanted: impl FnOnce() -> String) -> Result<T, Problem> {
    value.parse().map_err(|_| INVALID_PARAMETER.because(wanted()))
}

fn time(value: &str) -> Result<DateTime<Utc>, Problem> {
    DateTime::parse_from_rfc3339(value)
        .map(|time| time.to_utc())
        .map_err(|_| INVALID_PARAMETER.because("since is a time in RFC 3339, such as 2030-01-31T12:00:00Z"))
}

/// Opaque to callers, and so to be changed at will.
fn cursor(value: &str) -> Result<Uuid, Problem> {
    let simple = value.len() == 32;
    simple
        .then(|| Uuid::try_parse(value).ok())
        .flatten()
        .ok_or_else(|| INVALID_PARAMETER.because("cursor is what the page before says in `next`"))
}

fn page_size(value: &str) -> Result<i32, Problem> {
    let wanted = || format!("limit is a number from 1 to {LIMIT_MAX}");
    match parse(value, wanted)? {
        limit @ 1..=LIMIT_MAX => Ok(limit),
        _ => Err(INVALID_PARAMETER.because(wanted())),
    }
}

/// A page of requests.
#[derive(Serialize, ToSchema)]
#[schema(as = Page)]
struct Answer {
    /// Newest first. There may be none, and still a next page.
    requests: Vec<Line>,
    /// The `cursor` of the next page; null: there is none.
    #[schema(required)]
    next: Option<String>,
}

/// A request of a list.
#[derive(Serialize, ToSchema)]
#[schema(as = ListedRequest)]
struct Line {
    #[schema(value_type = Uuid)]
    job_id: RequestId,
    #[schema(inline)]
    status: Word,
    /// Where it is in its life.
    state: Status,
    /// Who submitted it; null: nobody has said.
    #[schema(required)]
    submitter: Option<String>,
    submitted_at: DateTime<Utc>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    finished_at: Option<DateTime<Utc>>,
}

impl From<ListedRequest> for Line {
    fn from(listed: ListedRequest) -> Self {
        Self {
            job_id: listed.id,
            status: listed.status.into(),
            state: listed.status,
            submitter: listed.submitter,
            submitted_at: listed.submitted_at,
            finished_at: listed.finished_at,
        }
    }
}

/// `GET /v1/{kind}`: the requests that the caller may see, newest first. `next`, also as a `Link` with `rel="next"`, is
/// where to go on; null on the last page. A page looks at some ten thousand requests at most, so one may be short, or
/// empty, and still not be the last.
#[utoipa::path(
    get,
    path = "/v1/{kind}",
    operation_id = "list",
    tag = "requests",
    summary = "List requests, newest first",
    params(KindParameter, Wishes),
    responses(
        (
            status = 200,
            description = "A page of them",
            body = Answer,
            headers(("Link" = String, description = "Where the next page is, with `rel=\"next\"`; none after the last one")),
        ),
        Refusals<(Call, OfKind, WithQuery)>,
    ),
    security((), ("api_key" = ["submit"])),
)]
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    KindPath { kind }: KindPath,
    caller: Caller,
    wishes: Wishes,
) -> Result<Response, Problem> {
    let wish = PageQuery {
        kind: kind.clone(),
        statuses: wishes.statuses.clone(),
        since: wishes.since,
        before: wishes.before,
        submitter: caller.sees_only().map(str::to_owned),
        limit: wishes.limit,
    };
    let Page { requests, next } = match api.store.list_requests(&wish).await {
        Ok(page) => page,
        Err(error) => return Err(refusal(&error, &kind)),
    };
    let link = next.map(|next| {
        let path = format!("/v1/{}", kind.replace('_', "-"));
        let link = format!("<{path}?{}>; rel=\"next\"", wishes.next(next));
        [(LINK, link)]
    });
    let body = Json(Answer {
        requests: requests.into_iter().map(Line::from).collect(),
        next: next.map(|next| next.simple().to_string()),
    });
    Ok(match link {
        Some(link) => (link, body).into_response(),
        None => body.into_response(),
    })
}
