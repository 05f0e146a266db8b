//! Queues: their state, pausing and resuming them.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::Serialize;
use utoipa::ToSchema;

use super::{AdminStore, Answer, GatePath, QueuePath};
use crate::{
    error::StoreError,
    http::{
        Api,
        openapi::refusals::{Call, OfQueue, Refusals},
    },
    store::{QueueOverview, Store},
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
    Ok(Json(PausedQueue {
        queue: path.queue,
        paused,
        changed: !changed.is_empty(),
    }))
}
