//! Kinds: making and listing them.

use std::{sync::Arc, time::Duration};

use axum::{
    Json as JsonAnswer,
    extract::{FromRequestParts, State},
    http::request::Parts,
};
use serde::{Deserialize, Serialize};
use tidegate::{
    internals::store::{Kind, KindOverview, KindRemoval, KindRemove, Setting, Store},
    request::Flow,
};
use utoipa::{
    ToSchema,
    openapi::{RefOr, Schema},
};

use super::{
    AdminStore, Answer,
    gates::{present, whole_if_present},
    read_query, storable,
};
use crate::api::{
    body::Json,
    context::Api,
    openapi::{
        refusals::{Call, Changing, OfKind, Refusals, WithBody, WithQuery},
        schemas::words,
    },
    path::parameter,
    problem::{Problem, UNKNOWN_KIND},
};

/// Kinds.
#[derive(Serialize, ToSchema)]
#[schema(as = KindList)]
pub(super) struct Kinds {
    kinds: Vec<KindOverview>,
}

/// Every kind with its queues and their limits.
#[utoipa::path(
    get,
    path = "/v1/admin/kinds",
    responses((status = 200, description = "The kinds", body = Kinds), Refusals<Call>),
)]
pub(super) async fn kinds(State(api): State<Arc<Api>>) -> Answer<Kinds> {
    let kinds = api.store.kinds(None).await?;
    Ok(JsonAnswer(Kinds { kinds }))
}

fn flows() -> RefOr<Schema> {
    words(Flow::ALL.iter().map(|flow| flow.as_str()))
}

/// A kind to make. The limits and marks are those of its queues that are missing.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NewKind {
    /// Its name.
    #[schema(pattern = "^[a-z][a-z0-9_]{0,54}$", example = "payout")]
    name: String,
    /// The statuses that its requests pass through.
    #[schema(schema_with = flows)]
    flow: Flow,
    /// The queue in which its requests wait to be sent: one of the kind's name unless given.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, pattern = "^[a-z][a-z0-9_]{0,39}$")]
    tx_queue: Option<String>,
    /// The queue in which its requests wait for their check, for flow decrypt: one of the kind's name and
    /// `_readiness` unless given.
    #[serde(default, deserialize_with = "present")]
    #[schema(nullable = false, pattern = "^[a-z][a-z0-9_]{0,39}$")]
    readiness_queue: Option<String>,
    /// How many shares complete a request of flow decrypt: 1 unless given.
    #[serde(default, deserialize_with = "whole_if_present")]
    #[schema(nullable = false, minimum = 1, maximum = 2_147_483_647, default = 1)]
    response_threshold: Option<i32>,
    /// How many sends per second the fleet makes; no limit unless given.
    #[schema(minimum = 0, maximum = 1_000_000, example = 20)]
    per_seconds: Option<f64>,
    /// How many readiness checks the fleet has under way; no limit unless given. Only for flow decrypt.
    #[serde(default, deserialize_with = "whole_if_present")]
    #[schema(nullable = false, minimum = 0, maximum = 2_147_483_647)]
    max_concurrency: Option<i32>,
    /// The depth at which the gates of its queues close: 2000 unless given.
    #[serde(default, deserialize_with = "whole_if_present")]
    #[schema(nullable = false, minimum = 1, maximum = 1_000_000_000, default = 2000)]
    high_water: Option<i32>,
    /// The depth at which they open again: half of `high_water` unless given.
    #[serde(default, deserialize_with = "whole_if_present")]
    #[schema(nullable = false, minimum = 0, maximum = 2_147_483_646)]
    low_water: Option<i32>,
    /// How long the downstream usually takes for an answer, in seconds: timeouts, attempts, deadlines and the first ETAs
    /// fit that.
    #[schema(minimum = 0.001, maximum = 43_200, example = 30)]
    answers_in_seconds: Option<f64>,
}

/// The result of making a kind.
#[derive(Serialize, ToSchema)]
pub(super) struct MadeKind {
    /// The settings that the call made; none if the kind existed.
    made: Vec<Setting>,
}

/// Make a kind that takes submissions at once.
///
/// Makes those of its queues that are missing, too. An existing kind and existing queues stay as they are; 400 when the
/// kind exists with another flow or other queues.
#[utoipa::path(
    post,
    path = "/v1/admin/kinds",
    request_body(content = NewKind),
    responses(
        (status = 200, description = "The kind is there, on every node", body = MadeKind),
        Refusals<(Call, WithBody, Changing)>,
    ),
)]
pub(super) async fn add_kind(AdminStore(store): AdminStore, Json(new): Json<NewKind>) -> Answer<MadeKind> {
    let mut kind = Kind::new(new.name, new.flow);
    kind.tx_queue = new.tx_queue;
    kind.readiness_queue = new.readiness_queue;
    kind.rate = new.per_seconds;
    kind.concurrency = new.max_concurrency;
    kind.low_water = new.low_water;
    // What is no time is out of bounds, too.
    let answers_in = new.answers_in_seconds.map(Duration::try_from_secs_f64);
    kind.answers_in = answers_in.map(Result::unwrap_or_default);
    kind.threshold = new.response_threshold.unwrap_or(kind.threshold);
    kind.high_water = new.high_water.unwrap_or(kind.high_water);
    let made = store.kind_add(&kind).await?;
    Ok(JsonAnswer(MadeKind { made }))
}

/// A path that names a kind.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct KindName {
    /// The kind, as the database names it.
    #[param(pattern = "^[a-z][a-z0-9_]{0,54}$", example = "payout")]
    pub(super) kind: String,
}

storable!(KindName { kind }, UNKNOWN_KIND, Ok);

/// What becomes of a kind's requests and queues.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct RemovalQuery {
    /// Refuse new requests, and wait for live ones.
    #[param(default = false)]
    #[serde(default)]
    drain: bool,
    /// Delete the requests that have ended, with results, idempotency keys and histories.
    #[param(default = false)]
    #[serde(default)]
    requests: bool,
    /// Remove the queues that no other kind uses.
    #[param(default = false)]
    #[serde(default)]
    queues: bool,
}

impl<S: Send + Sync> FromRequestParts<S> for RemovalQuery {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        read_query(parts)
    }
}

/// Remove a kind, or go a step towards it.
///
/// Call again until `removed` is true: with `drain` a call refuses new requests and counts live ones, with `requests` it
/// deletes a batch of ended ones. 400 when the kind has requests that the call neither waits for nor deletes.
#[utoipa::path(
    delete,
    path = "/v1/admin/kinds/{kind}",
    params(KindName, RemovalQuery),
    responses(
        (status = 200, description = "How far it is removed", body = KindRemoval),
        Refusals<(Call, OfKind, WithQuery, Changing)>,
    ),
)]
pub(super) async fn remove_kind(
    AdminStore(store): AdminStore,
    KindName { kind }: KindName,
    query: RemovalQuery,
) -> Answer<KindRemoval> {
    let with = KindRemove { drain: query.drain, requests: query.requests, queues: query.queues };
    Ok(JsonAnswer(store.kind_remove(&kind, with).await?))
}

/// A kind after it was paused or resumed.
#[derive(Serialize, ToSchema)]
pub(super) struct PausedKind {
    kind: String,
    /// Whether claims pass its requests over.
    paused: bool,
    /// Whether the call changed that.
    changed: bool,
}

/// Pass a kind's requests over in claims, everywhere.
///
/// They keep their places, and submissions are accepted. `changed` is false when it was paused before.
#[utoipa::path(
    post,
    path = "/v1/admin/kinds/{kind}/pause",
    params(KindName),
    responses((status = 200, description = "It is paused", body = PausedKind), Refusals<(Call, OfKind)>),
)]
pub(super) async fn pause_kind(AdminStore(store): AdminStore, path: KindName) -> Answer<PausedKind> {
    set_paused(&store, path, true).await
}

/// Let claims take a kind's requests again.
///
/// `changed` is false when it was not paused.
#[utoipa::path(
    post,
    path = "/v1/admin/kinds/{kind}/resume",
    params(KindName),
    responses((status = 200, description = "It goes on", body = PausedKind), Refusals<(Call, OfKind)>),
)]
pub(super) async fn resume_kind(AdminStore(store): AdminStore, path: KindName) -> Answer<PausedKind> {
    set_paused(&store, path, false).await
}

async fn set_paused(store: &Store, KindName { kind }: KindName, paused: bool) -> Answer<PausedKind> {
    let changed = store.pause_kind(&kind, paused).await?;
    Ok(JsonAnswer(PausedKind { kind, paused, changed }))
}
