//! Gates: how they stand, their marks, and holding them by hand.

use std::{collections::BTreeMap, sync::Arc};

use axum::{Json as JsonAnswer, extract::State};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use utoipa::ToSchema;

use super::{Acting, QueuePath, unknown_queue};
use crate::{
    http::{
        Api,
        body::Json,
        openapi::{
            parameters::QueueParameter,
            refusals::{Call, Changing, OfQueue, Refusals, WithBody},
        },
        problem::Problem,
    },
    store::{ConfigChange, Gate, GateHold, Store},
};

/// Gates.
#[derive(Serialize, ToSchema)]
pub(super) struct Gates {
    gates: Vec<Gate>,
}

/// `GET /v1/admin/gates`: every gate.
#[utoipa::path(
    get,
    path = "/v1/admin/gates",
    operation_id = "gates",
    tag = "administration",
    summary = "Every gate",
    responses((status = 200, description = "How they stand", body = Gates), Refusals<(Call,)>),
    security((), ("api_key" = ["admin"])),
)]
pub(super) async fn all(State(api): State<Arc<Api>>) -> Result<JsonAnswer<Gates>, Problem> {
    let gates = api.store.gates(None).await?;
    Ok(JsonAnswer(Gates { gates }))
}

/// `GET /v1/admin/gates/{queue}`: one gate; 404 for an unknown queue.
#[utoipa::path(
    get,
    path = "/v1/admin/gates/{queue}",
    operation_id = "gate",
    tag = "administration",
    summary = "A queue's gate",
    params(QueueParameter),
    responses((status = 200, description = "How it stands", body = Gate), Refusals<(Call, OfQueue)>),
    security((), ("api_key" = ["admin"])),
)]
pub(super) async fn one(
    State(api): State<Arc<Api>>,
    QueuePath(queue): QueuePath,
) -> Result<JsonAnswer<Gate>, Problem> {
    find(&api.store, &queue).await.map(JsonAnswer)
}

/// The marks and the mode of a gate; what is not there stays.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = GateMarks)]
pub(super) struct Marks {
    /// The depth at which it closes; above `low_water`.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, minimum = 1, maximum = 2_147_483_647)]
    high_water: Option<i32>,
    /// The depth at which it opens again.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, minimum = 0, maximum = 2_147_483_646)]
    low_water: Option<i32>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, inline)]
    mode: Option<Mode>,
}

/// Whether a gate counts exactly.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Mode {
    Strict,
    Soft,
}

/// A member that may be missing, but not null.
fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

impl Marks {
    /// As settings of this queue.
    fn settings(&self, queue: &str) -> serde_json::Result<BTreeMap<String, Box<RawValue>>> {
        let high = self.high_water.map(|mark| to_raw_value(&mark));
        let low = self.low_water.map(|mark| to_raw_value(&mark));
        let mode = self.mode.map(|mode| to_raw_value(&mode));
        [("high_water", high), ("low_water", low), ("mode", mode)]
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
            .map(|(name, value)| Ok((format!("{queue}.{name}"), value?)))
            .collect()
    }
}

/// A gate whose marks are set.
#[derive(Serialize, ToSchema)]
#[schema(as = MarkedGate)]
pub(super) struct Marked {
    gate: Gate,
    /// Without what was so before.
    changed: Vec<ConfigChange>,
}

/// `PATCH /v1/admin/gates/{queue}`: its marks and mode, as far as the body names them. Answers the gate and what changed.
#[utoipa::path(
    patch,
    path = "/v1/admin/gates/{queue}",
    operation_id = "mark_gate",
    tag = "administration",
    summary = "Set a gate's marks and mode",
    params(QueueParameter),
    request_body(content = Marks),
    responses(
        (status = 200, description = "They are so, everywhere within a second", body = Marked),
        Refusals<(Call, OfQueue, WithBody, Changing)>,
    ),
    security((), ("api_key" = ["admin"])),
)]
pub(super) async fn change(
    Acting(store): Acting,
    QueuePath(queue): QueuePath,
    Json(marks): Json<Marks>,
) -> Result<JsonAnswer<Marked>, Problem> {
    find(&store, &queue).await?;
    let settings = marks.settings(&queue).unwrap_or_default();
    let changed = store.config_set_many(&settings).await?;
    let gate = find(&store, &queue).await?;
    Ok(JsonAnswer(Marked { gate, changed }))
}

/// A gate that is held by hand, or let go.
#[derive(Serialize, ToSchema)]
#[schema(as = HeldGate)]
pub(super) struct Held {
    gate: Gate,
    /// Whether that was otherwise before.
    changed: bool,
}

/// `POST /v1/admin/gates/{queue}/close`: holds it closed until it is released; `changed` is false when it was held so.
#[utoipa::path(
    post,
    path = "/v1/admin/gates/{queue}/close",
    operation_id = "close_gate",
    tag = "administration",
    summary = "Hold a gate closed",
    params(QueueParameter),
    responses((status = 200, description = "It is held", body = Held), Refusals<(Call, OfQueue)>),
    security((), ("api_key" = ["admin"])),
)]
pub(super) async fn close(
    Acting(store): Acting,
    QueuePath(queue): QueuePath,
) -> Result<JsonAnswer<Held>, Problem> {
    hold(&store, &queue, GateHold::Close).await
}

/// `POST /v1/admin/gates/{queue}/open`: holds it open until it is released.
#[utoipa::path(
    post,
    path = "/v1/admin/gates/{queue}/open",
    operation_id = "open_gate",
    tag = "administration",
    summary = "Hold a gate open",
    params(QueueParameter),
    responses((status = 200, description = "It is held", body = Held), Refusals<(Call, OfQueue)>),
    security((), ("api_key" = ["admin"])),
)]
pub(super) async fn open(
    Acting(store): Acting,
    QueuePath(queue): QueuePath,
) -> Result<JsonAnswer<Held>, Problem> {
    hold(&store, &queue, GateHold::Open).await
}

/// `POST /v1/admin/gates/{queue}/release`: lets it go by its marks again.
#[utoipa::path(
    post,
    path = "/v1/admin/gates/{queue}/release",
    operation_id = "release_gate",
    tag = "administration",
    summary = "Let a gate go by its marks again",
    params(QueueParameter),
    responses((status = 200, description = "It is let go", body = Held), Refusals<(Call, OfQueue)>),
    security((), ("api_key" = ["admin"])),
)]
pub(super) async fn release(
    Acting(store): Acting,
    QueuePath(queue): QueuePath,
) -> Result<JsonAnswer<Held>, Problem> {
    hold(&store, &queue, GateHold::Release).await
}

async fn hold(store: &Store, queue: &str, hold: GateHold) -> Result<JsonAnswer<Held>, Problem> {
    find(store, queue).await?;
    let changed = store.gate_force(queue, hold).await?;
    let gate = find(store, queue).await?;
    Ok(JsonAnswer(Held { gate, changed }))
}

async fn find(store: &Store, queue: &str) -> Result<Gate, Problem> {
    let gate = store.gates(Some(queue)).await?.pop();
    gate.ok_or_else(|| unknown_queue(queue))
}
