//! Queues: how they stand, and stopping them.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::Serialize;
use utoipa::ToSchema;

use super::{Acting, QueuePath, unknown_queue};
use crate::{
    error::StoreError,
    http::{
        Api,
        openapi::{
            parameters::QueueParameter,
            refusals::{Call, OfQueue, Refusals},
        },
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
    operation_id = "queues",
    tag = "administration",
    summary = "Depth, holds, drain rates, limits and gate of every queue",
    responses((status = 200, description = "How they stand", body = Queues), Refusals<(Call,)>),
    security((), ("api_key" = ["admin"])),
)]
pub(super) async fn all(State(api): State<Arc<Api>>) -> Result<Json<Queues>, Problem> {
    let queues = api.store.queue_overview().await?;
    Ok(Json(Queues { queues }))
}

/// A queue that is paused, or not.
#[derive(Serialize, ToSchema)]
#[schema(as = PausedQueue)]
pub(super) struct Paused {
    queue: String,
    /// Whether claims are stopped.
    paused: bool,
    /// Whether that was otherwise before.
    changed: bool,
}

/// `POST /v1/admin/queues/{queue}/pause`: stops claims, everywhere; `changed` is false when they were stopped before.
#[utoipa::path(
    post,
    path = "/v1/admin/queues/{queue}/pause",
    operation_id = "pause",
    tag = "administration",
    summary = "Stop a queue's claims, everywhere",
    params(QueueParameter),
    responses((status = 200, description = "They are stopped", body = Paused), Refusals<(Call, OfQueue)>),
    security((), ("api_key" = ["admin"])),
)]
pub(super) async fn pause(Acting(store): Acting, QueuePath(queue): QueuePath) -> Result<Json<Paused>, Problem> {
    set(&store, queue, true).await
}

/// `POST /v1/admin/queues/{queue}/resume`: the opposite.
#[utoipa::path(
    post,
    path = "/v1/admin/queues/{queue}/resume",
    operation_id = "resume",
    tag = "administration",
    summary = "Let a queue's claims go on",
    params(QueueParameter),
    responses((status = 200, description = "They go on", body = Paused), Refusals<(Call, OfQueue)>),
    security((), ("api_key" = ["admin"])),
)]
pub(super) async fn resume(Acting(store): Acting, QueuePath(queue): QueuePath) -> Result<Json<Paused>, Problem> {
    set(&store, queue, false).await
}

async fn set(store: &Store, queue: String, paused: bool) -> Result<Json<Paused>, Problem> {
    let changed = match store.pause(Some(&queue), paused).await {
        Err(StoreError::UnknownQueue(_)) => return Err(unknown_queue(&queue)),
        paused => paused?,
    };
    Ok(Json(Paused {
        queue,
        paused,
        changed: !changed.is_empty(),
    }))
}
