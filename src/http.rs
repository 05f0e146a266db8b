//! The HTTP API: one file a resource, problem details (RFC 9457) for every error.
//!
//! A node keeps nothing that a crash could lose: a 202 leaves only after the database has committed, and every answer
//! is read from the database when it is asked for.

mod body;
mod grouping;
mod health;
mod json;
mod limits;
mod metrics;
mod openapi;
mod path;
mod poll;
mod problem;
mod responses;
mod server;
mod submit;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    http::{Method, Uri},
    middleware,
};
use tower_http::{catch_panic::CatchPanicLayer, trace::TraceLayer};
use utoipa::openapi::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};

use self::{grouping::Submitter, limits::Admission, metrics::NodeMetrics, problem::Problem};
pub use self::{metrics::metrics_router, server::serve};
use crate::store::Store;

/// What the API allows its callers.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// The largest body, in bytes; a larger one gets 413.
    pub body_limit: usize,
    /// How long one request may take, its body included; a slower one gets 503.
    pub request_timeout: Duration,
    /// How many requests of `/v1` may be under way; one more gets 503 at once, because an endless queue helps nobody.
    pub concurrency_limit: usize,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            body_limit: 1024 * 1024,
            request_timeout: Duration::from_secs(30),
            concurrency_limit: 1024,
        }
    }
}

/// What the handlers share.
struct Api {
    store: Store,
    submitter: Submitter,
    metrics: Arc<NodeMetrics>,
    body_limit: usize,
}

/// The whole API over one database.
pub fn router(store: Store, options: &HttpOptions) -> Router {
    let admission = Admission::new(options.concurrency_limit);
    let metrics = Arc::new(NodeMetrics::new(&store, admission.clone()));
    let api = Arc::new(Api {
        submitter: Submitter::new(
            store.clone(),
            options.request_timeout,
            metrics.group_sizes(),
        ),
        store,
        metrics: Arc::clone(&metrics),
        body_limit: options.body_limit,
    });

    let limited = Router::from(requests_routes().merge(responses_routes()))
        .route_layer(middleware::from_fn_with_state(admission, limits::admit));
    let routes = limited
        .merge(Router::from(free_routes()))
        .merge(openapi::page());

    guarded(routes.with_state(api), options.request_timeout)
        .layer(middleware::from_fn_with_state(metrics, metrics::measure))
}

// A method that a path does not have is answered by `wrong_method`, which axum completes with `Allow`.

/// What submitters call.
fn requests_routes() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::new()
        .routes(routes!(submit::submit))
        .routes(routes!(poll::poll, poll::cancel))
}

/// What the downstream calls.
fn responses_routes() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::new()
        .routes(routes!(responses::respond))
        .routes(routes!(responses::respond_to_job))
}

/// The calls that take no place among the limited ones: health is asked most urgently when the node is full.
fn free_routes() -> OpenApiRouter<Arc<Api>> {
    OpenApiRouter::new()
        .routes(routes!(health::live))
        .routes(routes!(health::ready))
        .routes(routes!(metrics::serve))
        .routes(routes!(openapi::serve))
}

/// The API's document, as `/openapi.json` serves it.
#[must_use]
pub fn document() -> OpenApi {
    let routes = [requests_routes(), responses_routes(), free_routes()];
    let document = OpenApiRouter::with_openapi(openapi::begin());
    let document = routes.into_iter().fold(document, OpenApiRouter::merge);
    openapi::finish(document.into_openapi())
}

/// What holds for every answer: it is a problem when it is an error, it comes in time, and nobody caches it.
fn guarded(routes: Router, request_timeout: Duration) -> Router {
    routes
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn_with_state(
            request_timeout,
            limits::in_time,
        ))
        .layer(CatchPanicLayer::custom(problem::of_panic))
        .layer(middleware::map_response(limits::never_cached))
        // What went wrong is logged where it is known, by `problem`.
        .layer(TraceLayer::new_for_http().on_failure(()))
}

async fn unknown_path(uri: Uri) -> Problem {
    problem::UNKNOWN_PATH.because(format!("there is nothing at {}", uri.path()))
}

async fn wrong_method(method: Method, uri: Uri) -> Problem {
    problem::WRONG_METHOD.because(format!("{} does not take {method}", uri.path()))
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio_util::sync::CancellationToken;

    use super::*;

    #[tokio::test]
    async fn a_panic_answers_500_and_the_next_call_is_served() {
        let routes = Router::new()
            .route(
                "/panic",
                get(|| async { panic!("on purpose") as &'static str }),
            )
            .route("/livez", get(health::live));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = guarded(routes, Duration::from_secs(5));
        tokio::spawn(serve(listener, router, CancellationToken::new()));
        let client = reqwest::Client::new();
        let get = |path: &str| client.get(format!("http://{address}{path}")).send();

        let panicked = get("/panic").await.unwrap();

        assert_eq!(panicked.status(), 500);
        assert_eq!(
            panicked.headers()["content-type"],
            "application/problem+json"
        );
        assert_eq!(panicked.headers()["cache-control"], "no-store");
        let problem: serde_json::Value = panicked.json().await.unwrap();
        assert_eq!(problem["code"], "internal");
        assert!(!problem["detail"].as_str().unwrap().contains("on purpose"));
        assert_eq!(get("/livez").await.unwrap().status(), 200);
    }
}
