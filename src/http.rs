//! The HTTP API: one file a resource, problem details (RFC 9457) for every error.
//!
//! A crash of a node loses nothing: a 202 is sent only after the database has committed, and every answer is read from
//! the database for its call.

mod access;
mod admin;
pub(crate) mod answers;
mod batch;
mod body;
mod events;
mod grouping;
mod health;
mod limits;
mod list;
mod metrics;
mod node;
mod node_options;
mod openapi;
mod options;
mod origin;
mod outlooks;
mod path;
mod poll;
mod prefer;
mod problem;
mod quote;
mod rate_limit;
mod resolution;
mod responses;
mod retry_after;
mod routes;
mod server;
mod statistics;
mod submit;
mod waiting;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::Bytes,
    http::{Method, Uri},
    middleware,
};
use tower_http::{catch_panic::CatchPanicLayer, trace::TraceLayer};

pub use self::{
    access::{Caller, Refusal},
    limits::Permit,
    metrics::metrics_router,
    node::Node,
    node_options::{Keys, NodeOptions},
    options::{ConnectionOptions, HttpOptions},
    problem::Problem,
    routes::document,
    server::{serve, serve_within},
};
use self::{events::Streams, limits::Admission};
use crate::{
    api_key::Scope,
    request::{RequestId, Status},
    store::Store,
};

/// How many calls of `/v1/admin` may be under way; they do not count against the other limit.
const ADMIN_CALLS: usize = 16;

/// The application name of a node's listening connection: `tidegate.gate_copy` counts the nodes by it, because they
/// share the room behind a gate.
pub const LISTENER_NAME: &str = "tidegate-api-listener";

/// The state of the handlers.
#[derive(Clone)]
struct Api {
    /// The node's store; for the calls of operators, the one with their own connections.
    store: Store,
    node: Node,
    streams: Arc<Streams>,
    /// The API's document, as text.
    document: Bytes,
}

impl Api {
    /// Reports the move of a request by a call, to waiters here and on other nodes.
    fn moved(&self, id: RequestId, status: Status) {
        self.node.waiters.moved([(id, status)]);
        self.node.announcer.note([(id, status)]);
    }
}

/// The whole API over one database, for a server that receives no notifications: waiting callers are answered when the
/// node polls, within about a second.
pub fn router(store: Store, options: &HttpOptions) -> Router {
    Node::new(store, NodeOptions::default().http(options.clone())).router()
}

impl Node {
    /// The whole API, with `/metrics`, health checks and its document. It answers unknown paths, too; so a program with
    /// a fallback of its own merges it after [`Router::reset_fallback`].
    pub fn router(&self) -> Router {
        let options = &self.options.http;
        let document = document();
        let api = Arc::new(Api {
            streams: Arc::new(Streams::new(self.store.clone(), options)),
            document: document.to_json().unwrap_or_default().into(),
            store: self.store.clone(),
            node: self.clone(),
        });
        let mut operators_api = Api::clone(&api);
        operators_api.store = self.operators.clone();

        let access = &self.access;
        // The guard is the outer layer: calls without access take no permit.
        let limited = |scope, admission: &Admission, routes: Router<Arc<Api>>| {
            let limit = middleware::from_fn_with_state(admission.clone(), limits::admit);
            access.guard(scope, routes.route_layer(limit))
        };
        let at_gate = middleware::from_fn_with_state(Arc::clone(&api), rate_limit::at_gate);
        let submissions = Router::from(routes::submissions()).route_layer(at_gate);
        let submitters = submissions.merge(Router::from(routes::queries()));
        let monitoring = access.with_old_keys();
        let calls = limited(Scope::Submit, &self.admission, submitters)
            .merge(limited(Scope::Respond, &self.admission, Router::from(routes::responses())))
            .merge(monitoring.guard(Scope::Admin, Router::from(routes::monitoring())));
        // Repairing a node must not wait for the calls that overload it.
        let admin = admin::nothing_else(Router::from(admin::routes()));
        let operations = limited(Scope::Admin, &Admission::new(ADMIN_CALLS), admin)
            .merge(Router::from(routes::health()))
            .merge(Router::from(routes::documents()))
            .merge(openapi::page());
        let operations = operations.with_state(Arc::new(operators_api));
        let routes = guarded(timely(calls.with_state(api).merge(operations), options.request_timeout));
        routes.layer(middleware::from_fn_with_state(Arc::clone(&self.metrics), metrics::measure))
    }
}

/// Limits the time of every call; unknown paths and methods are answered with a problem.
fn timely(routes: Router, request_timeout: Duration) -> Router {
    routes
        .fallback(unknown_path)
        // axum adds `Allow` to this answer.
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn_with_state(request_timeout, limits::in_time))
}

/// Makes a problem of a panic, and forbids caching of every answer.
fn guarded(routes: Router) -> Router {
    routes
        .layer(CatchPanicLayer::custom(problem::of_panic))
        .layer(middleware::map_response(limits::never_cached))
        // Failures are logged by `problem`, with their cause.
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
            .route("/panic", get(|| async { panic!("on purpose") as &'static str }))
            .route("/livez", get(health::live));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = guarded(timely(routes, Duration::from_secs(5)));
        tokio::spawn(serve(listener, router, CancellationToken::new()));
        let client = reqwest::Client::new();
        let get = |path: &str| client.get(format!("http://{address}{path}")).send();

        let panicked = get("/panic").await.unwrap();

        assert_eq!(panicked.status(), 500);
        assert_eq!(panicked.headers()["content-type"], "application/problem+json");
        assert_eq!(panicked.headers()["cache-control"], "no-store");
        let problem: serde_json::Value = panicked.json().await.unwrap();
        assert_eq!(problem["code"], "internal");
        assert!(!problem["detail"].as_str().unwrap().contains("on purpose"));
        assert_eq!(get("/livez").await.unwrap().status(), 200);
    }
}
