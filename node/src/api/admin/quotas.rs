//! Quotas: gates of kinds and submitters.

use std::sync::Arc;

use axum::{Json as JsonAnswer, extract::State};
use serde::{Deserialize, Serialize};
use tidegate::internals::store::{Gate, GateHold, QuotaMarks};
use utoipa::ToSchema;

use super::{
    AdminStore, Answer, GatePath, QuotaPath,
    gates::{ForcedGate, GateMarks, MarkedGate, Mode, find, force, gate_calls, present, whole, whole_if_present},
};
use crate::api::{
    body::Json,
    context::Api,
    openapi::refusals::{Call, Changing, OfKind, OfQuota, Refusals, WithBody},
};

/// The marks and mode of a quota. For a member that is missing, a new quota gets half of `high_water` and strict; an
/// existing quota keeps its value.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Quota {
    /// How many requests in queues close it; above `low_water`.
    #[serde(deserialize_with = "whole")]
    #[schema(minimum = 1, maximum = 1_000_000_000)]
    high_water: i32,
    /// How many open it again.
    #[serde(default, deserialize_with = "whole_if_present")]
    #[schema(nullable = false, minimum = 0, maximum = 2_147_483_646)]
    low_water: Option<i32>,
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, inline)]
    mode: Option<Mode>,
}

/// Limit how many requests of a kind or submitter may be in queues.
///
/// Creates or changes the quota; `changed` is false when it was so before.
#[utoipa::path(
    put,
    path = "/v1/admin/quotas/{of}/{name}",
    params(QuotaPath),
    request_body(content = Quota),
    responses(
        (status = 200, description = "The quota; in force everywhere within a second", body = ForcedGate),
        Refusals<(Call, OfKind, OfQuota, WithBody, Changing)>,
    ),
)]
pub(super) async fn put_quota(
    AdminStore(store): AdminStore,
    path: QuotaPath,
    Json(quota): Json<Quota>,
) -> Answer<ForcedGate> {
    let marks =
        QuotaMarks { high_water: Some(quota.high_water), low_water: quota.low_water, mode: quota.mode.map(Mode::word) };
    let changed = store.quota_set(&path.watched(), marks).await?;
    let gate = find(&store, &path).await?;
    Ok(JsonAnswer(ForcedGate { gate, changed }))
}

/// The result of removing a quota.
#[derive(Serialize, ToSchema)]
pub(super) struct RemovedQuota {
    /// Whether there was one before.
    changed: bool,
}

/// Remove the quota of a kind or submitter.
///
/// `changed` is false when there was none.
#[utoipa::path(
    delete,
    path = "/v1/admin/quotas/{of}/{name}",
    params(QuotaPath),
    responses((status = 200, description = "There is none", body = RemovedQuota), Refusals<(Call, OfQuota)>),
)]
pub(super) async fn remove_quota(AdminStore(store): AdminStore, path: QuotaPath) -> Answer<RemovedQuota> {
    let changed = store.quota_remove(&path.gate()).await?;
    Ok(JsonAnswer(RemovedQuota { changed }))
}

gate_calls! {
    QuotaPath, OfQuota, "/v1/admin/quotas/{of}/{name}";
    get quota "The quota of a kind or submitter";
    patch mark_quota "Set a quota's marks and mode";
    post close_quota "/v1/admin/quotas/{of}/{name}/close" Close "Hold a quota closed";
    post open_quota "/v1/admin/quotas/{of}/{name}/open" Open "Hold a quota open";
    post release_quota "/v1/admin/quotas/{of}/{name}/release" Release "Let a quota follow its marks again";
}
