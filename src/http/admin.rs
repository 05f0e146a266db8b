//! What operators do over HTTP: configuration, queues, gates. A router of its own, so that one layer guards all of it.

mod caps;
mod changes;
mod config;
mod gates;
mod queues;
mod schemas;

use std::{convert::Infallible, sync::Arc};

use axum::{Router, extract::FromRequestParts, http::request::Parts, routing::any};
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    Api,
    access::Caller,
    path::parameter,
    problem::{Class, Problem, UNKNOWN_CAP, UNKNOWN_QUEUE, UNKNOWN_SETTING},
    unknown_path,
};
use crate::store::{Store, Watched};

/// Everything below `/v1/admin`.
pub(super) fn routes() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::new()
        .routes(routes!(config::all, config::change))
        .routes(routes!(config::history))
        .routes(routes!(config::one))
        .routes(routes!(queues::all))
        .routes(routes!(queues::pause))
        .routes(routes!(queues::resume))
        .routes(routes!(gates::all))
        .routes(routes!(gates::history))
        .routes(routes!(gates::one, gates::change))
        .routes(routes!(gates::close))
        .routes(routes!(gates::open))
        .routes(routes!(gates::release))
        .routes(routes!(caps::one, caps::put, caps::change, caps::remove))
        .routes(routes!(caps::close))
        .routes(routes!(caps::open))
        .routes(routes!(caps::release))
}

/// No kind is called `admin`, and none is looked for there.
pub(super) fn nothing_else(routes: Router<Arc<Api>>) -> Router<Arc<Api>> {
    routes
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
        last(parts, state, "queue", &UNKNOWN_QUEUE).await.map(Self)
    }
}

/// The cap that a path names.
struct CapPath(Watched);

impl<S: Send + Sync> FromRequestParts<S> for CapPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let of = last(parts, state, "of", &UNKNOWN_CAP).await?;
        let name = last(parts, state, "name", &UNKNOWN_CAP).await?;
        if name.chars().count() > 200 {
            return Err(UNKNOWN_CAP.because("kinds and submitters have at most 200 characters"));
        }
        match of.as_str() {
            "kind" => Ok(Self(Watched::Kind(name))),
            "submitter" => Ok(Self(Watched::Submitter(name))),
            _ => Err(UNKNOWN_CAP.because("caps are of a kind or of a submitter")),
        }
    }
}

/// The setting that a path names.
struct SettingPath(String);

impl<S: Send + Sync> FromRequestParts<S> for SettingPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        last(parts, state, "name", &UNKNOWN_SETTING).await.map(Self)
    }
}

/// A part of the path that the database can be asked about.
async fn last<S: Send + Sync>(
    parts: &mut Parts,
    state: &S,
    name: &str,
    unknown: &'static Class,
) -> Result<String, Problem> {
    match parameter(parts, state, name).await {
        Ok(value) if !value.contains('\0') => Ok(value),
        _ => Err(unknown.because("the path is not text")),
    }
}

fn unknown_queue(queue: &str) -> Problem {
    UNKNOWN_QUEUE.because(format!("there is no queue \"{queue}\""))
}
