//! `/metrics`, and the layer that counts and times calls.

use std::{sync::Arc, time::Instant};

use axum::{
    Router,
    extract::{MatchedPath, Request, State},
    http::header::CONTENT_TYPE,
    middleware::Next,
    response::{IntoResponse, Response},
    routing::get,
};
use tidegate::internals::store::Store;

use super::{
    context::Api,
    layers::{guarded, timely},
    openapi::refusals::{Anywhere, Asking, Guarded, Refusals},
    traced,
};
use crate::state::{
    metrics::{NodeMetrics, exporter::Exporter},
    options::HttpOptions,
};

/// The version of Prometheus' text format.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Counts a call, and measures its duration. The outermost layer, so that it counts the answers that callers get.
pub(super) async fn measure(State(metrics): State<Arc<NodeMetrics>>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let method = request.method().clone();
    let path = request.extensions().get::<MatchedPath>().cloned();
    let response = traced::run(request, path.as_ref(), next).await;
    let route = path.as_ref().map(MatchedPath::as_str);
    metrics.called(route, method.as_str(), response.status().as_str(), began.elapsed());
    response
}

/// Metrics for monitoring.
///
/// In Prometheus' text format; `docs/monitoring.md` describes them. Without the database it answers with the metrics of
/// this process only.
#[utoipa::path(
    get,
    path = "/metrics",
    responses(
        (status = 200, description = "Prometheus' text format", content_type = "text/plain", body = String),
        Refusals<(Anywhere, Asking, Guarded)>,
    ),
)]
pub(super) async fn metrics(State(api): State<Arc<Api>>) -> impl IntoResponse {
    ([(CONTENT_TYPE, TEXT)], api.node.metrics.render(&api.store).await)
}

/// Only `/metrics`, for a process that serves no API: its own metrics, without those that every node reads from the
/// database.
pub fn metrics_router(exporter: Exporter, store: Store) -> Router {
    let render = move || async move {
        exporter.record_database(&store);
        ([(CONTENT_TYPE, TEXT)], exporter.render())
    };
    let routes = Router::new().route("/metrics", get(render));
    guarded(timely(routes, HttpOptions::default().request_timeout))
}
