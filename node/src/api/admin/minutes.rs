//! A day of a kind or a queue by the minute.

use std::{sync::Arc, time::Duration};

use axum::{
    Json,
    extract::{FromRequestParts, State},
    http::request::Parts,
};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use tidegate::internals::store::{KindMinute, QueueMinute, Store};
use utoipa::ToSchema;

use super::{Answer, GatePath, QueuePath, kinds::KindName, read_query};
use crate::api::{
    context::Api,
    openapi::refusals::{Call, OfKind, OfQueue, Refusals, WithQuery},
    problem::{Problem, UNKNOWN_KIND},
};

/// Since when, unless the caller says.
const DEFAULT: Duration = Duration::from_secs(3600);

/// Which minutes.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Minutes {
    /// Since when, of the last day at most: an hour ago unless given.
    #[param(nullable = false, example = "2030-01-31T12:00:00Z")]
    since: Option<DateTime<Utc>>,
}

impl Minutes {
    async fn since(&self, store: &Store) -> Result<DateTime<Utc>, Problem> {
        match self.since {
            Some(since) => Ok(since),
            None => Ok(store.time_ago(DEFAULT).await?),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Minutes {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        read_query(parts)
    }
}

/// The minutes of a kind, the earliest first; none in which nothing was called and nothing ended.
#[derive(Serialize, ToSchema)]
pub(super) struct KindHistory {
    minutes: Vec<KindMinute>,
}

/// A kind by the minute: ends, calls and latencies.
#[utoipa::path(
    get,
    path = "/v1/admin/kinds/{kind}/history",
    params(KindName, Minutes),
    responses(
        (status = 200, description = "Its minutes", body = KindHistory),
        Refusals<(Call, OfKind, WithQuery)>,
    ),
)]
pub(super) async fn kind_history(
    State(api): State<Arc<Api>>,
    KindName { kind }: KindName,
    query: Minutes,
) -> Answer<KindHistory> {
    let minutes = api.store.kind_history(Some(&kind), query.since(&api.store).await?).await?;
    if minutes.is_empty() && api.store.kinds(Some(&kind)).await?.is_empty() {
        return Err(UNKNOWN_KIND.because(format!("there is no kind \"{kind}\"")));
    }
    Ok(Json(KindHistory { minutes }))
}

/// The minutes of a queue, the earliest first.
#[derive(Serialize, ToSchema)]
pub(super) struct QueueHistory {
    minutes: Vec<QueueMinute>,
}

/// A queue by the minute: depth and drains.
#[utoipa::path(
    get,
    path = "/v1/admin/queues/{queue}/history",
    params(QueuePath, Minutes),
    responses(
        (status = 200, description = "Its minutes", body = QueueHistory),
        Refusals<(Call, OfQueue, WithQuery)>,
    ),
)]
pub(super) async fn queue_history(
    State(api): State<Arc<Api>>,
    path: QueuePath,
    query: Minutes,
) -> Answer<QueueHistory> {
    let since = query.since(&api.store).await?;
    let minutes = api.store.queue_history(Some(&path.queue), since).await?;
    // Each queue has a gate.
    if minutes.is_empty() && api.store.gates(Some(&path.gate())).await?.is_empty() {
        return Err(path.unknown());
    }
    Ok(Json(QueueHistory { minutes }))
}
