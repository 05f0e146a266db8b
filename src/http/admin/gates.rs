//! Gates: how they stand, their marks, holding them by hand, what became of them.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Json as JsonAnswer,
    extract::{FromRequestParts, Query, State},
    http::request::Parts,
};
use serde::{Deserialize, Deserializer, Serialize, de::Error};
use serde_json::{
    Number,
    value::{RawValue, to_raw_value},
};
use utoipa::ToSchema;

use super::{Acting, QueuePath, unknown_queue};
use crate::{
    http::{
        Api,
        body::Json,
        openapi::{
            parameters::QueueParameter,
            refusals::{Call, Changing, OfQueue, Refusals, WithBody, WithQuery},
        },
        problem::{INVALID_PARAMETER, Problem},
    },
    store::{ConfigChange, Gate, GateChange, GateHold, Store},
};

/// Gates.
#[derive(Serialize, ToSchema)]
pub(super) struct Gates {
    gates: Vec<Gate>,
}

/// `GET /v1/admin/gates`: every gate, caps too.
#[utoipa::path(
    get,
    path = "/v1/admin/gates",
    operation_id = "gates",
    tag = "administration",
    summary = "Every gate, those of queues and the caps of kinds and submitters",
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
pub(super) async fn one(State(api): State<Arc<Api>>, QueuePath(queue): QueuePath) -> Result<JsonAnswer<Gate>, Problem> {
    let gate = find(&api.store, &queue, || unknown_queue(&queue)).await?;
    Ok(JsonAnswer(gate))
}

/// The marks and the mode of a gate; what is not there stays.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = GateMarks)]
pub(super) struct Marks {
    /// The depth at which it closes; above `low_water`.
    #[serde(default, deserialize_with = "whole_if_present")]
    #[schema(nullable = false, minimum = 1, maximum = 2_147_483_647)]
    high_water: Option<i32>,
    /// The depth at which it opens again.
    #[serde(default, deserialize_with = "whole_if_present")]
    #[schema(nullable = false, minimum = 0, maximum = 2_147_483_646)]
    low_water: Option<i32>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, inline)]
    mode: Option<Mode>,
}

/// Whether a gate counts exactly.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Mode {
    Strict,
    Soft,
}

impl Mode {
    /// As the database says it.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Soft => "soft",
        }
    }
}

/// A member that may be missing, but not null.
pub(super) fn present<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// A whole number. JSON does not tell 200 from 200.0, so neither is refused.
pub(super) fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
    let number = Number::deserialize(deserializer)?;
    let exact = number
        .as_f64()
        .filter(|value| value.fract() == 0.0)
        .and_then(|value| format!("{value:.0}").parse().ok());
    exact.ok_or_else(|| D::Error::custom(format!("{number} is not a whole number of 32 bits")))
}

/// A whole number that may be missing, but not null.
pub(super) fn whole_if_present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i32>, D::Error> {
    whole(deserializer).map(Some)
}

impl Marks {
    /// As settings of the gate of this name.
    fn settings(&self, gate: &str) -> serde_json::Result<BTreeMap<String, Box<RawValue>>> {
        let high = self.high_water.map(|mark| to_raw_value(&mark));
        let low = self.low_water.map(|mark| to_raw_value(&mark));
        let mode = self.mode.map(|mode| to_raw_value(&mode));
        [("high_water", high), ("low_water", low), ("mode", mode)]
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
            .map(|(name, value)| Ok((format!("{gate}.{name}"), value?)))
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

impl Marks {
    /// Sets them for a gate that there is, and answers how it stands then.
    pub(super) async fn set(
        &self,
        store: &Store,
        gate: &str,
        unknown: impl Fn() -> Problem,
    ) -> Result<JsonAnswer<Marked>, Problem> {
        find(store, gate, &unknown).await?;
        let settings = self.settings(gate).unwrap_or_default();
        let changed = store.config_set_many(&settings).await?;
        let gate = find(store, gate, &unknown).await?;
        Ok(JsonAnswer(Marked { gate, changed }))
    }
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
    marks.set(&store, &queue, || unknown_queue(&queue)).await
}

/// A gate that is held by hand, or let go.
#[derive(Serialize, ToSchema)]
#[schema(as = HeldGate)]
pub(super) struct Held {
    pub(super) gate: Gate,
    /// Whether that was otherwise before.
    pub(super) changed: bool,
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
pub(super) async fn close(Acting(store): Acting, QueuePath(queue): QueuePath) -> Result<JsonAnswer<Held>, Problem> {
    hold(&store, &queue, GateHold::Close, || unknown_queue(&queue)).await
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
pub(super) async fn open(Acting(store): Acting, QueuePath(queue): QueuePath) -> Result<JsonAnswer<Held>, Problem> {
    hold(&store, &queue, GateHold::Open, || unknown_queue(&queue)).await
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
pub(super) async fn release(Acting(store): Acting, QueuePath(queue): QueuePath) -> Result<JsonAnswer<Held>, Problem> {
    hold(&store, &queue, GateHold::Release, || unknown_queue(&queue)).await
}

/// Holds a gate that there is, or lets it go, and answers how it stands then.
pub(super) async fn hold(
    store: &Store,
    gate: &str,
    hold: GateHold,
    unknown: impl Fn() -> Problem,
) -> Result<JsonAnswer<Held>, Problem> {
    find(store, gate, &unknown).await?;
    let changed = store.gate_force(gate, hold).await?;
    let gate = find(store, gate, &unknown).await?;
    Ok(JsonAnswer(Held { gate, changed }))
}

/// The gate of a name; else what `unknown` says.
pub(super) async fn find(store: &Store, gate: &str, unknown: impl Fn() -> Problem) -> Result<Gate, Problem> {
    let found = store.gates(Some(gate)).await?.pop();
    found.ok_or_else(unknown)
}

/// How many changes a page of the history has at most, and unless the caller says.
const PAGE_MAX: i32 = 1000;
const PAGE: i32 = 100;

/// Changes of gates.
#[derive(Serialize, ToSchema)]
#[schema(as = GateHistory)]
pub(super) struct History {
    /// The latest first.
    changes: Vec<GateChange>,
    /// Where the next page begins; null: there is none.
    #[schema(required)]
    next_before: Option<i64>,
}

/// `GET /v1/admin/gates/history`: when gates closed and opened, and why, the latest first. `next_before` is where the next
/// page begins, null on the last one.
#[utoipa::path(
    get,
    path = "/v1/admin/gates/history",
    operation_id = "gates_history",
    tag = "administration",
    summary = "When gates closed and opened, and why, the latest first",
    params(Page),
    responses(
        (status = 200, description = "A page of changes", body = History),
        Refusals<(Call, WithQuery)>,
    ),
    security((), ("api_key" = ["admin"])),
)]
pub(super) async fn history(State(api): State<Arc<Api>>, page: Page) -> Result<JsonAnswer<History>, Problem> {
    let limit = page.limit.unwrap_or(PAGE);
    let changes = api.store.gate_history(page.gate.as_deref(), limit, page.before).await?;
    let is_full = usize::try_from(limit).is_ok_and(|limit| changes.len() == limit);
    let next_before = changes.last().filter(|_| is_full).map(|last| last.id);
    Ok(JsonAnswer(History { changes, next_before }))
}

/// Which changes are wanted.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct Page {
    /// Only those of the gate of this name: a queue, `kind direct`, `submitter ann`.
    #[param(nullable = false, example = "tx")]
    gate: Option<String>,
    /// How many at most.
    #[param(nullable = false, minimum = 1, maximum = 1000, default = 100)]
    limit: Option<i32>,
    /// Where to go on: `next_before` of the page before.
    #[param(nullable = false)]
    before: Option<i64>,
}

impl<S: Send + Sync> FromRequestParts<S> for Page {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let Query(page) = Query::<Self>::try_from_uri(&parts.uri)
            .map_err(|rejection| INVALID_PARAMETER.because(rejection.body_text()))?;
        if page.limit.is_some_and(|limit| !(1..=PAGE_MAX).contains(&limit)) {
            return Err(INVALID_PARAMETER.because(format!("limit is 1 to {PAGE_MAX}")));
        }
        if page.gate.as_ref().is_some_and(|gate| gate.contains('\0')) {
            return Err(INVALID_PARAMETER.because("gate is text"));
        }
        Ok(page)
    }
}
