//! Which handler is where. A route is made of its handler's documentation, so there is none without.

use std::sync::Arc;

use utoipa::openapi::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{Api, admin, batch, events, health, list, metrics, openapi, poll, responses, submit};

/// What is told how much room there is.
pub(super) fn posting() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::new()
        .routes(routes!(submit::submit))
        .routes(routes!(batch::submit))
}

/// What submitters call besides.
pub(super) fn asking() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::new()
        .routes(routes!(list::list))
        .routes(routes!(poll::poll, poll::cancel))
        .routes(routes!(events::follow))
}

/// What the downstream calls.
pub(super) fn responding() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::new()
        .routes(routes!(responses::respond))
        .routes(routes!(responses::respond_to_job))
}

/// What monitoring calls.
pub(super) fn figures() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::new().routes(routes!(metrics::serve))
}

/// The calls that nobody needs a key for, and that take no place among the limited ones: health is asked most urgently
/// when the node is full.
pub(super) fn free() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::new()
        .routes(routes!(health::live))
        .routes(routes!(health::ready))
        .routes(routes!(openapi::serve))
}

/// The API's document, as `/openapi.json` serves it.
#[must_use]
pub fn document() -> OpenApi {
    let routes = [posting(), asking(), responding(), admin::routes(), figures(), free()];
    let document = OpenApiRouter::with_openapi(openapi::begin());
    let document = routes.into_iter().fold(document, OpenApiRouter::merge);
    openapi::finish(document.into_openapi())
}
