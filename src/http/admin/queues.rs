//! Queues: how they stand, and stopping them.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde_json::{Value, json};

use super::{Acting, QueuePath, unknown_queue};
use crate::{
    error::StoreError,
    http::{Api, problem::Problem},
    store::Store,
};

/// `GET /v1/admin/queues`: depth, holds, drain rates, limits and gate of every queue.
pub(super) async fn all(State(api): State<Arc<Api>>) -> Result<Json<Value>, Problem> {
    let queues = api.store.queue_overview().await?;
    Ok(Json(json!({ "queues": queues })))
}

/// `POST /v1/admin/queues/{queue}/pause`: stops claims, everywhere; `changed` is false when they were stopped before.
pub(super) async fn pause(
    Acting(store): Acting,
    QueuePath(queue): QueuePath,
) -> Result<Json<Value>, Problem> {
    set(&store, &queue, true).await
}

/// `POST /v1/admin/queues/{queue}/resume`: the opposite.
pub(super) async fn resume(
    Acting(store): Acting,
    QueuePath(queue): QueuePath,
) -> Result<Json<Value>, Problem> {
    set(&store, &queue, false).await
}

async fn set(store: &Store, queue: &str, paused: bool) -> Result<Json<Value>, Problem> {
    let changed = match store.pause(Some(queue), paused).await {
        Err(StoreError::UnknownQueue(_)) => return Err(unknown_queue(queue)),
        paused => paused?,
    };
    Ok(Json(json!({
        "queue": queue,
        "paused": paused,
        "changed": !changed.is_empty(),
    })))
}
