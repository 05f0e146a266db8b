//! Queues: their state, pausing and resuming them.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::{Deserialize, Serialize};
use tidegate::{
    internals::{
        error::StoreError,
        store::{NewQueue, QueueOverview, Setting, Store, SubmitterCount},
    },
    request::Stage,
};
use utoipa::{
    ToSchema,
    openapi::{RefOr, Schema},
};

use super::{
    AdminStore, Answer, GatePath, QueuePath,
    gates::{present, whole_if_present},
};
use crate::api::{
    body,
    context::Api,
    openapi::{
        refusals::{Call, Changing, OfQueue, Refusals, WithBody},
        schemas::words,
    },
};

/// Queues.
#[derive(Serialize, ToSchema)]
#[schema(as = QueueList)]
pub(super) struct Queues {
    queues: Vec<QueueOverview>,
}

/// Depth, holds, drain rates, limits and gate of every queue.
#[utoipa::path(
    get,
    path = "/v1/admin/queues",
    responses((status = 200, description = "The queues", body = Queues), Refusals<Call>),
)]
pub(super) async fn queues(State(api): State<Arc<Api>>) -> Answer<Queues> {
    let queues = api.store.queue_overview().await?;
    Ok(Json(Queues { queues }))
}

/// Whose requests are in the queues.
#[derive(Serialize, ToSchema)]
pub(super) struct SubmitterList {
    submitters: Vec<SubmitterCount>,
}

/// The submitters with the most requests in a queue, 100 at most.
///
/// One line for each queue and submitter. Reads every request in a queue.
#[utoipa::path(
    get,
    path = "/v1/admin/submitters",
    responses((status = 200, description = "The submitters", body = SubmitterList), Refusals<Call>),
)]
pub(super) async fn submitters(State(api): State<Arc<Api>>) -> Answer<SubmitterList> {
    let submitters = api.store.submitter_counts(None, 100).await?;
    Ok(Json(SubmitterList { submitters }))
}

/// A queue after it was paused or resumed.
#[derive(Serialize, ToSchema)]
pub(super) struct PausedQueue {
    queue: String,
    /// Whether claims are stopped.
    paused: bool,
    /// Whether the call changed that.
    changed: bool,
}

/// Stop a queue's claims, everywhere.
///
/// `changed` is false when they were stopped before.
#[utoipa::path(
    post,
    path = "/v1/admin/queues/{queue}/pause",
    params(QueuePath),
    responses((status = 200, description = "They are stopped", body = PausedQueue), Refusals<(Call, OfQueue)>),
)]
pub(super) async fn pause(AdminStore(store): AdminStore, path: QueuePath) -> Answer<PausedQueue> {
    set(&store, path, true).await
}

/// Let a queue's claims go on.
///
/// `changed` is false when they were not stopped.
#[utoipa::path(
    post,
    path = "/v1/admin/queues/{queue}/resume",
    params(QueuePath),
    responses((status = 200, description = "They go on", body = PausedQueue), Refusals<(Call, OfQueue)>),
)]
pub(super) async fn resume(AdminStore(store): AdminStore, path: QueuePath) -> Answer<PausedQueue> {
    set(&store, path, false).await
}

async fn set(store: &Store, path: QueuePath, paused: bool) -> Answer<PausedQueue> {
    let changed = match store.pause(Some(&path.queue), paused).await {
        Err(StoreError::UnknownQueue(_)) => return Err(path.unknown()),
        paused => paused?,
    };
    Ok(Json(PausedQueue { queue: path.queue, paused, changed: !changed.is_empty() }))
}

fn stages() -> RefOr<Schema> {
    words(Stage::ALL.iter().map(|stage| stage.as_str()))
}

/// A queue to make.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct QueueToMake {
    /// Its name.
    #[schema(pattern = "^[a-z][a-z0-9_]{0,39}$", example = "bulk")]
    name: String,
    /// The stage that it serves.
    #[schema(schema_with = stages)]
    stage: Stage,
    /// How many sends per second the fleet makes, for stage tx; no limit unless given.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, minimum = 0, maximum = 1_000_000)]
    per_seconds: Option<f64>,
    /// How many checks the fleet has under way, for stage readiness; no limit unless given.
    #[serde(default, deserialize_with = "whole_if_present")]
    #[schema(nullable = false, minimum = 0, maximum = 2_147_483_647)]
    max_concurrency: Option<i32>,
    /// The depth at which its gate closes: 2000 unless given.
    #[serde(default, deserialize_with = "whole_if_present")]
    #[schema(nullable = false, minimum = 1, maximum = 1_000_000_000, default = 2000)]
    high_water: Option<i32>,
    /// The depth at which it opens again: half of `high_water` unless given.
    #[serde(default, deserialize_with = "whole_if_present")]
    #[schema(nullable = false, minimum = 0, maximum = 2_147_483_646)]
    low_water: Option<i32>,
    /// Whose turns it serves, so that no submitter or kind makes the others wait; in order of arrival unless given.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, pattern = "^(submitter|kind)$")]
    fair_by: Option<String>,
}

/// The result of making a queue.
#[derive(Serialize, ToSchema)]
pub(super) struct MadeQueue {
    /// The settings that the call made; none if the queue existed.
    made: Vec<Setting>,
}

/// Make a queue, to which kinds may be moved.
///
/// An existing queue stays as it is; 400 when it serves the other stage.
#[utoipa::path(
    post,
    path = "/v1/admin/queues",
    request_body(content = QueueToMake),
    responses(
        (status = 200, description = "The queue is there", body = MadeQueue),
        Refusals<(Call, WithBody, Changing)>,
    ),
)]
pub(super) async fn add_queue(
    AdminStore(store): AdminStore,
    body::Json(new): body::Json<QueueToMake>,
) -> Answer<MadeQueue> {
    let queue = NewQueue {
        name: new.name,
        stage: new.stage,
        rate: new.per_seconds,
        concurrency: new.max_concurrency,
        high_water: new.high_water,
        low_water: new.low_water,
        fair_by: new.fair_by,
    };
    let made = store.queue_add(&queue).await?;
    Ok(Json(MadeQueue { made }))
}

/// A queue that is gone.
#[derive(Serialize, ToSchema)]
pub(super) struct RemovedQueue {
    queue: String,
    removed: bool,
}

/// Remove a queue that no kind uses and that holds no request.
///
/// 400 when kinds use it or it holds requests.
#[utoipa::path(
    delete,
    path = "/v1/admin/queues/{queue}",
    params(QueuePath),
    responses(
        (status = 200, description = "It is gone", body = RemovedQueue),
        Refusals<(Call, OfQueue, Changing)>,
    ),
)]
pub(super) async fn remove_queue(AdminStore(store): AdminStore, path: QueuePath) -> Answer<RemovedQueue> {
    store.queue_remove(&path.queue).await?;
    let (queue, removed) = (path.queue, true);
    Ok(Json(RemovedQueue { queue, removed }))
}
