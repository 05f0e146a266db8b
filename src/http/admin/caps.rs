//! Caps: gates of kinds and submitters.

use std::sync::Arc;

use axum::{Json as JsonAnswer, extract::State};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    Acting, CapPath,
    gates::{Held, Marked, Marks, Mode, find, hold, present, whole, whole_if_present},
};
use crate::{
    http::{
        Api,
        body::Json,
        openapi::{
            parameters::CapParameters,
            refusals::{Call, Changing, OfCap, OfKind, Refusals, WithBody},
        },
        problem::{Problem, UNKNOWN_CAP},
    },
    store::{Gate, GateHold, QuotaMarks, Watched},
};

/// `GET /v1/admin/caps/{of}/{name}`: one cap; 404 for a kind or submitter that has none.
#[utoipa::path(
    get,
    path = "/v1/admin/caps/{of}/{name}",
    operation_id = "cap",
    tag = "administration",
    summary = "The cap of a kind or submitter",
    params(CapParameters),
    responses((status = 200, description = "How it stands", body = Gate), Refusals<(Call, OfCap)>),
    security((), ("api_key" = ["admin"])),
)]
pub(super) async fn one(State(api): State<Arc<Api>>, CapPath(capped): CapPath) -> Result<JsonAnswer<Gate>, Problem> {
    let cap = find(&api.store, &capped.gate(), || unknown(&capped)).await?;
    Ok(JsonAnswer(cap))
}

/// What a cap is to be. Of a new one, what is not there is half of `high_water`, and strict; else it stays.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Cap)]
pub(super) struct Wanted {
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
    operation_id = "put_cap",
    tag = "administration",
    summary = "Cap how many requests of a kind or submitter may be in queues",
    params(CapParameters),
    request_body(content = Wanted),
    responses(
        (status = 200, description = "It is so, everywhere within a second", body = Held),
        Refusals<(Call, OfKind, OfCap, WithBody, Changing)>,
    ),
    security((), ("api_key" = ["admin"])),
)]
pub(super) async fn put(
    Acting(store): Acting,
    CapPath(capped): CapPath,
    Json(wanted): Json<Wanted>,
) -> Result<JsonAnswer<Held>, Problem> {
    let marks = QuotaMarks {
        high_water: Some(wanted.high_water),
        low_water: wanted.low_water,
        mode: wanted.mode.map(Mode::word),
    };
    let changed = store.quota_set(&capped, marks).await?;
    let gate = find(&store, &capped.gate(), || unknown(&capped)).await?;
    Ok(JsonAnswer(Held { gate, changed }))
}

/// `PATCH /v1/admin/caps/{of}/{name}`: marks and mode of a cap that there is, as far as the body names them.
#[utoipa::path(
    patch,
    path = "/v1/admin/caps/{of}/{name}",
    operation_id = "mark_cap",
    tag = "administration",
    summary = "Set a cap's marks and mode",
    params(CapParameters),
    request_body(content = Marks),
    responses(
        (status = 200, description = "They are so, everywhere within a second", body = Marked),
        Refusals<(Call, OfCap, WithBody, Changing)>,
    ),
    security((), ("api_key" = ["admin"])),
)]
pub(super) async fn change(
    Acting(store): Acting,
    CapPath(capped): CapPath,
    Json(marks): Json<Marks>,
) -> Result<JsonAnswer<Marked>, Problem> {
    marks.set(&store, &capped.gate(), || unknown(&capped)).await
}

/// A cap that is gone.
#[derive(Serialize, ToSchema)]
#[schema(as = RemovedCap)]
pub(super) struct Removed {
    /// Whether there was one before.
    changed: bool,
}

/// `DELETE /v1/admin/caps/{of}/{name}`: removes it; `changed` is false when there was none.
#[utoipa::path(
    delete,
    path = "/v1/admin/caps/{of}/{name}",
    operation_id = "remove_cap",
    tag = "administration",
    summary = "Remove the cap of a kind or submitter",
    params(CapParameters),
    responses((status = 200, description = "There is none", body = Removed), Refusals<(Call, OfCap)>),
    security((), ("api_key" = ["admin"])),
)]
pub(super) async fn remove(Acting(store): Acting, CapPath(capped): CapPath) -> Result<JsonAnswer<Removed>, Problem> {
    let changed = store.quota_remove(&capped.gate()).await?;
    Ok(JsonAnswer(Removed { changed }))
}

/// `POST /v1/admin/caps/{of}/{name}/close`: holds it closed until it is released.
#[utoipa::path(
    post,
    path = "/v1/admin/caps/{of}/{name}/close",
    operation_id = "close_cap",
    tag = "administration",
    summary = "Hold a cap closed",
    params(CapParameters),
    responses((status = 200, description = "It is held", body = Held), Refusals<(Call, OfCap)>),
    security((), ("api_key" = ["admin"])),
)]
pub(super) async fn close(Acting(store): Acting, CapPath(capped): CapPath) -> Result<JsonAnswer<Held>, Problem> {
    hold(&store, &capped.gate(), GateHold::Close, || unknown(&capped)).await
}

/// `POST /v1/admin/caps/{of}/{name}/open`: holds it open until it is released.
#[utoipa::path(
    post,
    path = "/v1/admin/caps/{of}/{name}/open",
    operation_id = "open_cap",
    tag = "administration",
    summary = "Hold a cap open",
    params(CapParameters),
    responses((status = 200, description = "It is held", body = Held), Refusals<(Call, OfCap)>),
    security((), ("api_key" = ["admin"])),
)]
pub(super) async fn open(Acting(store): Acting, CapPath(capped): CapPath) -> Result<JsonAnswer<Held>, Problem> {
    hold(&store, &capped.gate(), GateHold::Open, || unknown(&capped)).await
}

/// `POST /v1/admin/caps/{of}/{name}/release`: lets it go by its marks again.
#[utoipa::path(
    post,
    path = "/v1/admin/caps/{of}/{name}/release",
    operation_id = "release_cap",
    tag = "administration",
    summary = "Let a cap go by its marks again",
    params(CapParameters),
    responses((status = 200, description = "It is let go", body = Held), Refusals<(Call, OfCap)>),
    security((), ("api_key" = ["admin"])),
)]
pub(super) async fn release(Acting(store): Acting, CapPath(capped): CapPath) -> Result<JsonAnswer<Held>, Problem> {
    hold(&store, &capped.gate(), GateHold::Release, || unknown(&capped)).await
}

fn unknown(capped: &Watched) -> Problem {
    let what = match capped {
        Watched::Queue(queue) => format!("\"{queue}\" is a queue"),
        Watched::Kind(kind) => format!("the kind \"{kind}\" has no cap"),
        Watched::Submitter(submitter) => format!("the submitter \"{submitter}\" has no cap"),
    };
    UNKNOWN_CAP.because(what)
}
