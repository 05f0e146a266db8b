//! Queues: their state, pausing and resuming them.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::Serialize;
use utoipa::ToSchema;

use super::{AdminStore, GatePath, QueuePath};
use crate::{
    error::StoreError,
    http::{
        Api,
        openapi::refusals::{Call, OfQueue, Refusals},
        problem::Problem,
    },
    store::{QueueOverview, Store},
};

/// Queues.
#[derive(Serialize, ToSchema)]
pub(super) struct Queues {
    queues: Vec<QueueOverview>,
}

/// `GET /v1/admin/queues`: depth, holds, drain rates, limits and gate of every queue.
#[utoipa::path(
    get,
    path = "/v1/admin/queues",
    summary = "Depth, holds, drain rates, limits and gate of every queue",
    responses((status = 200, description = "The queues", body = Queues), Refusals<(Call,)>),
)]
pub(super) async fn queues(State(api): State<Arc<Api>>) -> Result<Json<Queues>, Problem> {
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

/// `POST /v1/admin/queues/{queue}/pause`: stops claims, everywhere; `changed` is false when they were stopped before.
#[utoipa::path(
    post,
    path = "/v1/admin/queues/{queue}/pause",
    summary = "Stop a queue's claims, everywhere",
    params(QueuePath),
    responses((status = 200, description = "They are stopped", body = PausedQueue), Refusals<(Call, OfQueue)>),
)]
pub(super) async fn pause(AdminStore(store): AdminStore, path: QueuePath) -> Result<Json<PausedQueue>, Problem> {
    set(&store, path, true).await
}

/// `POST /v1/admin/queues/{queue}/resume`: lets claims go on; `changed` is false when they were not stopped.
#[utoipa::path(
    post,
    path = "/v1/admin/queues/{queue}/resume",
    summary = "Let a queue's claims go on",
    params(QueuePath),
    responses((status = 200, description = "They go on", body = PausedQueue), Refusals<(Call, OfQueue)>),
)]
pub(super) async fn resume(AdminStore(store): AdminStore, path: QueuePath) -> Result<Json<PausedQueue>, Problem> {
    set(&store, path, false).await
}

async fn set(store: &Store, path: QueuePath, paused: bool) -> Result<Json<PausedQueue>, Problem> {
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
