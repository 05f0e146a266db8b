//! Caps: gates of kinds and submitters.

use std::sync::Arc;

use axum::{Json as JsonAnswer, extract::State};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    AdminStore, CapPath, GatePath,
    gates::{ForcedGate, GateMarks, MarkedGate, Mode, find, gate_calls, present, whole, whole_if_present},
};
use crate::{
    http::{
        Api,
        body::Json,
        openapi::refusals::{Call, Changing, OfCap, OfKind, Refusals, WithBody},
        problem::Problem,
    },
    store::{Gate, QuotaMarks},
};

/// The marks and mode of a cap. For a member that is missing, a new cap gets half of `high_water` and strict; an
/// existing cap keeps its value.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Cap {
    /// How many requests in queues close it; above `low_water`.
    #[serde(deserialize_with = "whole")]
    #[schema(minimum = 1, maximum = 2_147_483_647)]
    high_water: i32,
    /// How many open it again.
    #[serde(default, deserialize_with = "whole_if_present")]
    #[schema(nullable = false, minimum = 0, maximum = 2_147_483_646)]
    low_water: Option<i32>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, inline)]
    mode: Option<Mode>,
}

/// `PUT /v1/admin/caps/{of}/{name}`: makes the cap, or changes it; `changed` is false when it was so before.
#[utoipa::path(
    put,
    path = "/v1/admin/caps/{of}/{name}",
    summary = "Cap how many requests of a kind or submitter may be in queues",
    params(CapPath),
    request_body(content = Cap),
    responses(
        (status = 200, description = "The cap; in force everywhere within a second", body = ForcedGate),
        Refusals<(Call, OfKind, OfCap, WithBody, Changing)>,
    ),
)]
pub(super) async fn put_cap(
    AdminStore(store): AdminStore,
    path: CapPath,
    Json(cap): Json<Cap>,
) -> Result<JsonAnswer<ForcedGate>, Problem> {
    let marks = QuotaMarks {
        high_water: Some(cap.high_water),
        low_water: cap.low_water,
        mode: cap.mode.map(Mode::word),
    };
    let changed = store.quota_set(&path.watched(), marks).await?;
    let gate = find(&store, &path).await?;
    Ok(JsonAnswer(ForcedGate { gate, changed }))
}

/// The result of removing a cap.
#[derive(Serialize, ToSchema)]
pub(super) struct RemovedCap {
    /// Whether there was one before.
    changed: bool,
}

/// `DELETE /v1/admin/caps/{of}/{name}`: removes it; `changed` is false when there was none.
#[utoipa::path(
    delete,
    path = "/v1/admin/caps/{of}/{name}",
    summary = "Remove the cap of a kind or submitter",
    params(CapPath),
    responses((status = 200, description = "There is none", body = RemovedCap), Refusals<(Call, OfCap)>),
)]
pub(super) async fn remove_cap(
    AdminStore(store): AdminStore,
    path: CapPath,
) -> Result<JsonAnswer<RemovedCap>, Problem> {
    let changed = store.quota_remove(&path.gate()).await?;
    Ok(JsonAnswer(RemovedCap { changed }))
}

gate_calls! {
    CapPath, OfCap, "/v1/admin/caps/{of}/{name}";
    get cap "The cap of a kind or submitter";
    patch mark_cap "Set a cap's marks and mode";
    post close_cap "/v1/admin/caps/{of}/{name}/close" Close "Hold a cap closed";
    post open_cap "/v1/admin/caps/{of}/{name}/open" Open "Hold a cap open";
    post release_cap "/v1/admin/caps/{of}/{name}/release" Release "Let a cap go by its marks again";
}
