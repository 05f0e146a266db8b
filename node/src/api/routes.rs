//! The routes of the handlers, in groups. Each route is generated from its handler's documentation.

use std::{collections::HashSet, sync::Arc};

use tidegate::internals::api_key::Scope;
use utoipa::openapi::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    admin, batch, context::Api, events, health, list, metrics, openapi, poll, quote, resolution, responses, submit,
};

/// Submissions, whose answers state the room behind the gate.
pub(super) fn submissions() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::new().routes(routes!(submit::submit)).routes(routes!(batch::submit_batch))
}

/// The other calls of submitters.
pub(super) fn queries() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::new()
        .routes(routes!(list::list))
        .routes(routes!(quote::quote))
        .routes(routes!(poll::poll, poll::cancel))
        .routes(routes!(events::follow))
}

/// The calls of the downstream.
pub(super) fn responses() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::new()
        .routes(routes!(responses::respond))
        .routes(routes!(responses::respond_to_job))
        .routes(routes!(resolution::resolve))
}

/// The calls of monitoring.
pub(super) fn monitoring() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::new().routes(routes!(metrics::metrics))
}

/// Health checks. They need no key and count against no limit, because they matter most when the node is at its limit.
pub(super) fn health() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::new().routes(routes!(health::live)).routes(routes!(health::ready))
}

/// The document, which needs no key.
pub(super) fn documents() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::new().routes(routes!(openapi::openapi))
}

/// The paths of the API.
pub(crate) fn paths() -> HashSet<String> {
    document().paths.paths.into_keys().collect()
}

/// The API's document, as `/openapi.json` serves it.
#[must_use]
pub fn document() -> OpenApi {
    let groups = [
        ("requests", Some(Scope::Submit), submissions()),
        ("requests", Some(Scope::Submit), queries()),
        ("responses", Some(Scope::Respond), responses()),
        ("administration", Some(Scope::Admin), admin::routes()),
        ("documents", Some(Scope::Admin), monitoring()),
        ("health", None, health()),
        ("documents", None, documents()),
    ];
    let mut document = OpenApiRouter::with_openapi(openapi::begin());
    for (tag, scope, mut routes) in groups {
        openapi::describe_group(routes.get_openapi_mut(), tag, scope);
        document = document.merge(routes);
    }
    openapi::finish(document.into_openapi())
}
