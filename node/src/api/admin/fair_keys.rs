//! The keys of fair queues: whose turns they serve, their weights and pauses.

use std::sync::Arc;

use axum::{Json, extract::State};
use serde::{Deserialize, Serialize};
use tidegate::internals::{error::StoreError, store::FairKey};
use utoipa::ToSchema;

use super::{
    AdminStore, Answer, GatePath, QueuePath,
    gates::{present, whole_if_present},
};
use crate::api::{
    body,
    context::Api,
    openapi::refusals::{Call, Changing, OfQueue, Refusals, WithBody},
};

/// The keys of a fair queue.
#[derive(Serialize, ToSchema)]
pub(super) struct FairKeyList {
    keys: Vec<FairKey>,
}

/// The submitters, or kinds, that have requests in a fair queue, or settings; those with most waiting first, 1000 at most.
///
/// 400 for a queue that is not fair.
#[utoipa::path(
    get,
    path = "/v1/admin/queues/{queue}/keys",
    params(QueuePath),
    responses((status = 200, description = "The keys", body = FairKeyList), Refusals<(Call, OfQueue, Changing)>),
)]
pub(super) async fn keys(State(api): State<Arc<Api>>, path: QueuePath) -> Answer<FairKeyList> {
    match api.store.fair_keys(&path.queue, 1000).await {
        Err(StoreError::UnknownQueue(_)) => Err(path.unknown()),
        keys => Ok(Json(FairKeyList { keys: keys? })),
    }
}

/// The settings of a key; what is missing stays.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FairKeySettings {
    /// The submitter or kind; empty for requests without a submitter.
    #[schema(example = "ann")]
    name: String,
    /// How many of its requests are served for one of a key of weight 1.
    #[serde(default, deserialize_with = "whole_if_present")]
    #[schema(nullable = false, minimum = 1, maximum = 1000)]
    weight: Option<i32>,
    /// Whether its requests are left out.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false)]
    paused: Option<bool>,
}

/// The result of setting a key.
#[derive(Serialize, ToSchema)]
pub(super) struct SetFairKey {
    /// Whether the call changed anything.
    changed: bool,
}

/// Give a submitter or kind a weight in a fair queue, or pause or resume it there.
///
/// In force from the next service on. 400 for a queue that is not fair.
#[utoipa::path(
    patch,
    path = "/v1/admin/queues/{queue}/keys",
    params(QueuePath),
    request_body(content = FairKeySettings),
    responses(
        (status = 200, description = "The key has these settings", body = SetFairKey),
        Refusals<(Call, OfQueue, WithBody, Changing)>,
    ),
)]
pub(super) async fn set_key(
    AdminStore(store): AdminStore,
    path: QueuePath,
    body::Json(key): body::Json<FairKeySettings>,
) -> Answer<SetFairKey> {
    match store.fair_key_set(&path.queue, &key.name, key.weight, key.paused).await {
        Err(StoreError::UnknownQueue(_)) => Err(path.unknown()),
        changed => Ok(Json(SetFairKey { changed: changed? })),
    }
}
