//! Gates: how they stand, their marks, and holding them by hand.

use std::{collections::BTreeMap, sync::Arc};

use axum::{Json as JsonAnswer, extract::State};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use super::{Acting, QueuePath, unknown_queue};
use crate::{
    http::{Api, body::Json, problem::Problem},
    store::{Gate, GateHold, Store},
};

/// `GET /v1/admin/gates`: every gate.
pub(super) async fn all(State(api): State<Arc<Api>>) -> Result<JsonAnswer<Value>, Problem> {
    let gates = api.store.gates(None).await?;
    Ok(JsonAnswer(json!({ "gates": gates })))
}

/// `GET /v1/admin/gates/{queue}`: one gate; 404 for an unknown queue.
pub(super) async fn one(
    State(api): State<Arc<Api>>,
    QueuePath(queue): QueuePath,
) -> Result<JsonAnswer<Gate>, Problem> {
    find(&api.store, &queue).await.map(JsonAnswer)
}

/// The body of `PATCH /v1/admin/gates/{queue}`; what is not there stays.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Marks {
    high_water: Option<Box<RawValue>>,
    low_water: Option<Box<RawValue>>,
    mode: Option<Box<RawValue>>,
}

/// `PATCH /v1/admin/gates/{queue}`: its marks and mode, as far as the body names them. Answers the gate and what changed.
pub(super) async fn change(
    Acting(store): Acting,
    QueuePath(queue): QueuePath,
    Json(marks): Json<Marks>,
) -> Result<JsonAnswer<Value>, Problem> {
    find(&store, &queue).await?;
    let changes: BTreeMap<_, _> = [
        ("high_water", marks.high_water),
        ("low_water", marks.low_water),
        ("mode", marks.mode),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((format!("{queue}.{name}"), value?)))
    .collect();
    let changed = store.config_set_many(&changes).await?;
    let gate = find(&store, &queue).await?;
    Ok(JsonAnswer(json!({ "gate": gate, "changed": changed })))
}

/// `POST /v1/admin/gates/{queue}/close`: holds it closed until it is released; `changed` is false when it was held so.
pub(super) async fn close(
    Acting(store): Acting,
    QueuePath(queue): QueuePath,
) -> Result<JsonAnswer<Value>, Problem> {
    hold(&store, &queue, GateHold::Close).await
}

/// `POST /v1/admin/gates/{queue}/open`: holds it open until it is released.
pub(super) async fn open(
    Acting(store): Acting,
    QueuePath(queue): QueuePath,
) -> Result<JsonAnswer<Value>, Problem> {
    hold(&store, &queue, GateHold::Open).await
}

/// `POST /v1/admin/gates/{queue}/release`: lets it go by its marks again.
pub(super) async fn release(
    Acting(store): Acting,
    QueuePath(queue): QueuePath,
) -> Result<JsonAnswer<Value>, Problem> {
    hold(&store, &queue, GateHold::Release).await
}

async fn hold(store: &Store, queue: &str, hold: GateHold) -> Result<JsonAnswer<Value>, Problem> {
    find(store, queue).await?;
    let changed = store.gate_force(queue, hold).await?;
    let gate = find(store, queue).await?;
    Ok(JsonAnswer(json!({ "gate": gate, "changed": changed })))
}

async fn find(store: &Store, queue: &str) -> Result<Gate, Problem> {
    let gate = store.gates(Some(queue)).await?.pop();
    gate.ok_or_else(|| unknown_queue(queue))
}
