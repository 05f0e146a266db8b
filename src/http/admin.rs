//! What operators do over HTTP: configuration, queues, gates. A router of its own, so that one layer guards all of it.

mod config;
mod gates;
mod queues;

use std::{convert::Infallible, sync::Arc};

use axum::{
    Router,
    extract::FromRequestParts,
    http::request::Parts,
    routing::{any, get, post},
};

use super::{
    Api,
    access::Caller,
    path::parameter,
    problem::{Problem, UNKNOWN_PATH, UNKNOWN_QUEUE},
    unknown_path,
};
use crate::store::Store;

/// Everything below `/v1/admin`.
pub(super) fn routes() -> Router<Arc<Api>> {
    Router::new()
        .route("/v1/admin/config", get(config::all).patch(config::change))
        .route("/v1/admin/config/history", get(config::history))
        .route("/v1/admin/config/{name}", get(config::one))
        .route("/v1/admin/queues", get(queues::all))
        .route("/v1/admin/queues/{queue}/pause", post(queues::pause))
        .route("/v1/admin/queues/{queue}/resume", post(queues::resume))
        .route("/v1/admin/gates", get(gates::all))
        .route(
            "/v1/admin/gates/{queue}",
            get(gates::one).patch(gates::change),
        )
        .route("/v1/admin/gates/{queue}/close", post(gates::close))
        .route("/v1/admin/gates/{queue}/open", post(gates::open))
        .route("/v1/admin/gates/{queue}/release", post(gates::release))
        // No kind is called `admin`, and none is looked for here.
        .route("/v1/admin", any(unknown_path))
        .route("/v1/admin/{*rest}", any(unknown_path))
}

/// The store, for changes on behalf of the caller.
struct Acting(Store);

impl FromRequestParts<Arc<Api>> for Acting {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, Infallible> {
        let caller = parts.extensions.get::<Caller>();
        let name = caller.and_then(Caller::name).unwrap_or("http");
        Ok(Self(api.store.clone().on_behalf_of(name)))
    }
}

/// The queue that a path names, as the database does.
struct QueuePath(String);

impl<S: Send + Sync> FromRequestParts<S> for QueuePath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        last(parts, state, "queue").await.map(Self)
    }
}

/// The setting that a path names.
struct SettingPath(String);

impl<S: Send + Sync> FromRequestParts<S> for SettingPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        last(parts, state, "name").await.map(Self)
    }
}

/// A part of the path that the database can be asked about.
async fn last<S: Send + Sync>(parts: &mut Parts, state: &S, name: &str) -> Result<String, Problem> {
    match parameter(parts, state, name).await {
        Ok(value) if !value.contains('\0') => Ok(value),
        _ => Err(UNKNOWN_PATH.because("the path is not text")),
    }
}

fn unknown_queue(queue: &str) -> Problem {
    UNKNOWN_QUEUE.because(format!("there is no queue \"{queue}\""))
}
