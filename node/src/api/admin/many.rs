//! Many requests at once: cancelling and redriving what a filter lets through, a batch a call.

use std::sync::Arc;

use axum::{Json as JsonAnswer, extract::State};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use tidegate::{
    internals::store::{PageQuery, Redrive},
    request::{RequestId, Status},
};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{
    AdminStore, Answer,
    gates::{present, whole_if_present},
};
use crate::api::{
    body::Json,
    context::Api,
    openapi::{
        refusals::{Call, Changing, OfKind, OfQueue, Refusals, WithBody},
        schemas::{cancellable_states, redrivable_states},
    },
};

/// How many requests a batch has unless the call says another number.
const BATCH: i32 = 100;

/// Which live requests to cancel: at least one member that narrows them.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Cancellation {
    /// Only this kind, as the database names it.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, example = "direct")]
    kind: Option<String>,
    /// Only requests in one of these states.
    #[serde(default)]
    #[schema(schema_with = cancellable_states)]
    states: Vec<Status>,
    /// Only those of this submitter.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    submitter: Option<String>,
    /// Only those in this queue, waiting or held by a worker.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    queue: Option<String>,
    /// Only those submitted at this time or later.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    since: Option<DateTime<Utc>>,
    /// Only those submitted before this time.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    until: Option<DateTime<Utc>>,
    /// Only these, 1000 at most; then `states` alone narrows them, and one call does it.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, max_items = 1000)]
    requests: Option<Vec<Uuid>>,
    /// How many at most: 100 unless given.
    #[serde(default, deserialize_with = "whole_if_present")]
    #[schema(nullable = false, minimum = 1, maximum = 1000, default = 100)]
    limit: Option<i32>,
    /// Where to go on: `next` of the call before.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    cursor: Option<Uuid>,
    /// Only count and list them.
    #[serde(default)]
    dry_run: bool,
}

/// A batch that was cancelled; of a dry run, that would be.
#[derive(Serialize, ToSchema)]
pub(super) struct CancelledBatch {
    /// How many have ended.
    cancelled: i64,
    /// How many are being sent, and end as cancelled unless that succeeds.
    cancelling: i64,
    /// Both.
    requests: Vec<Uuid>,
    /// The `cursor` of the next batch; null: there is none.
    #[schema(required)]
    next: Option<Uuid>,
}

/// Cancel live requests that a filter lets through, newest first, one batch a call.
///
/// Call again with `next` as `cursor` until it is null; a batch may be empty and not be the last. What is submitted after
/// the first call stays. 400 without a filter, and for states that cannot be cancelled.
#[utoipa::path(
    post,
    path = "/v1/admin/requests/cancel",
    request_body(content = Cancellation),
    responses(
        (status = 200, description = "They are cancelled", body = CancelledBatch),
        Refusals<(Call, OfKind, OfQueue, WithBody, Changing)>,
    ),
)]
pub(super) async fn cancel_requests(
    State(api): State<Arc<Api>>,
    AdminStore(store): AdminStore,
    Json(asked): Json<Cancellation>,
) -> Answer<CancelledBatch> {
    let query = PageQuery {
        kind: asked.kind,
        statuses: asked.states,
        since: asked.since,
        until: asked.until,
        before: asked.cursor,
        submitter: asked.submitter,
        queue: asked.queue,
        limit: asked.limit.unwrap_or(BATCH),
        ..PageQuery::default()
    };
    let done = store.cancel_requests(&query, asked.requests.as_deref(), asked.dry_run).await?;
    let ended = usize::try_from(done.cancelled).unwrap_or_default();
    for &id in done.ids.iter().take(ended).filter(|_| !asked.dry_run) {
        api.moved(RequestId(id), Status::Failure);
    }
    Ok(JsonAnswer(CancelledBatch {
        cancelled: done.cancelled,
        cancelling: done.cancelling,
        requests: done.ids,
        next: done.next,
    }))
}

/// Which failed and timed-out requests to submit again.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Redrives {
    /// Only this kind, as the database names it.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, example = "direct")]
    kind: Option<String>,
    /// Only those of this submitter.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    submitter: Option<String>,
    /// Only those that ended at this time or later.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    since: Option<DateTime<Utc>>,
    /// Only those that ended before this time.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    until: Option<DateTime<Utc>>,
    /// Only those with an error of this code; all but `cancelled` unless given.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, example = "deadline_exceeded")]
    code: Option<String>,
    /// Only those in this state; both unless given.
    #[serde(default)]
    #[schema(schema_with = redrivable_states)]
    states: Vec<Status>,
    /// Only these, those that were cancelled too.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, max_items = 10_000)]
    requests: Option<Vec<Uuid>>,
    /// Also requests that were, or may have been, executed: their effects may be repeated.
    #[serde(default)]
    may_repeat: bool,
    /// How many at most: 100 unless given.
    #[serde(default, deserialize_with = "whole_if_present")]
    #[schema(nullable = false, minimum = 1, maximum = 10_000, default = 100)]
    limit: Option<i32>,
    /// Where to go on: `next` of the call before.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    cursor: Option<Uuid>,
    /// Only count and list them.
    #[serde(default)]
    dry_run: bool,
}

/// A request that was submitted again; of a dry run, that would be.
#[derive(Serialize, ToSchema)]
pub(super) struct RedrivenRequest {
    job_id: Uuid,
    /// The new request; null: it was a dry run.
    #[schema(required)]
    redriven_as: Option<Uuid>,
}

/// A request that cannot be submitted again now.
#[derive(Serialize, ToSchema)]
pub(super) struct UnfitRequest {
    job_id: Uuid,
    /// Why.
    reason: String,
}

/// A batch that was submitted again; of a dry run, that would be.
#[derive(Serialize, ToSchema)]
pub(super) struct RedrivenBatch {
    redriven: i64,
    /// How many the gates have no room for.
    refused: i64,
    /// In how many seconds these may have room; null: none was refused.
    #[schema(required)]
    retry_after_seconds: Option<i32>,
    requests: Vec<RedrivenRequest>,
    unfit: Vec<UnfitRequest>,
    /// The `cursor` of the next batch; null: there is none, or a queue is full.
    #[schema(required)]
    next: Option<Uuid>,
}

/// Submit failed and timed-out requests again, as new ones, one batch a call.
///
/// Each once at most, as far as the gates have room. A batch is of one kind and submitter: call again with `next` as
/// `cursor` until it is null.
#[utoipa::path(
    post,
    path = "/v1/admin/requests/redrive",
    request_body(content = Redrives),
    responses(
        (status = 200, description = "They are submitted again", body = RedrivenBatch),
        Refusals<(Call, OfKind, WithBody, Changing)>,
    ),
)]
pub(super) async fn redrive_requests(
    AdminStore(store): AdminStore,
    Json(asked): Json<Redrives>,
) -> Answer<RedrivenBatch> {
    let step = Redrive {
        batch: asked.limit.unwrap_or(BATCH),
        dry_run: asked.dry_run,
        kind: asked.kind.as_deref(),
        since: asked.since,
        code: asked.code.as_deref(),
        may_repeat: asked.may_repeat,
        submitter: asked.submitter.as_deref(),
        until: asked.until,
        requests: asked.requests.as_deref(),
        statuses: &asked.states,
    };
    let done = store.redrive(&step, asked.cursor).await?;
    let mut new_ids = done.new_ids.into_iter();
    let requests = done.ids.into_iter().map(|job_id| RedrivenRequest { job_id, redriven_as: new_ids.next() });
    let requests = requests.collect();
    let unfit = done.unfit_ids.into_iter().zip(done.unfit_reasons);
    let unfit = unfit.map(|(job_id, reason)| UnfitRequest { job_id, reason }).collect();
    Ok(JsonAnswer(RedrivenBatch {
        redriven: done.redriven,
        refused: done.refused,
        retry_after_seconds: done.retry_after_seconds,
        requests,
        unfit,
        next: done.next_after,
    }))
}
