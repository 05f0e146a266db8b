//! The HTTP API: one file a resource, problem details (RFC 9457) for every error.
//!
//! A node keeps nothing that a crash could lose: a 202 leaves only after the database has committed, and every answer
//! is read from the database when it is asked for.

mod access;
mod admin;
mod answers;
mod batch;
mod body;
mod events;
mod grouping;
mod health;
mod json;
mod limits;
mod list;
mod metrics;
mod openapi;
mod options;
mod origin;
mod outlooks;
mod path;
mod poll;
mod polls;
mod prefer;
mod problem;
mod rate_limit;
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
use tokio::sync::Semaphore;
use tower_http::{catch_panic::CatchPanicLayer, trace::TraceLayer};

use self::{
    access::Access, events::Streams, grouping::Submitter, limits::Admission, metrics::NodeMetrics, outlooks::Outlooks,
    polls::Polls, problem::Problem, statistics::Statistics,
};
pub use self::{
    metrics::metrics_router,
    options::HttpOptions,
    routes::document,
    server::{ConnectionOptions, serve, serve_within},
};
use crate::{
    api_key::Scope,
    gate::Gates,
    listener::Hear,
    news::{Teller, Waiters},
    request::{RequestId, Status},
    store::Store,
};

/// How many calls of `/v1/admin` may be under way, beside the others.
const ADMINS: usize = 16;

/// Connections for operators, API keys, gates, readiness and figures: what gets a node out of trouble has its own way to the
/// database.
const OPERATORS_CONNECTIONS: u32 = 2;

/// The name under which a node's listening connection is seen: `tidegate.gate_copy` counts the nodes by it, among which
/// the room behind a gate is shared.
pub const LISTENER_NAME: &str = "tidegate-api-listener";

/// What the handlers share.
#[derive(Clone)]
struct Api {
    store: Store,
    submitter: Submitter,
    polls: Polls,
    /// Places for those who look for a request by its id: they leave connections to the other calls.
    looks: Arc<Semaphore>,
    metrics: Arc<NodeMetrics>,
    body_limit: usize,
    streams: Arc<Streams>,
    waiters: Waiters,
    /// Where the requests stand that callers have waited for.
    outlooks: Outlooks,
    wait_max: Duration,
    teller: Teller,
    gates: Gates,
    /// The API's document, as text.
    document: Bytes,
}

impl Api {
    /// A call has moved a request: here and elsewhere, somebody may wait for that.
    fn moved(&self, id: RequestId, status: Status) {
        self.waiters.moved([(id, status)]);
        self.teller.note([(id, status)]);
    }
}

/// The whole API over one database, for a server that hears no notifications: those who wait get their answer when it
/// is looked for, within about a second.
pub fn router(store: Store, options: &HttpOptions) -> Router {
    Node::new(store, options).router(options)
}

/// A node of the API, as far as it takes part in what others say.
pub struct Node {
    store: Store,
    operators: Store,
    waiters: Waiters,
    teller: Teller,
    gates: Gates,
}

impl Node {
    /// A node over one database. It reads the gates from now on; for callers within a runtime.
    #[must_use]
    pub fn new(store: Store, options: &HttpOptions) -> Self {
        let operators = store.with_own_pool(OPERATORS_CONNECTIONS);
        Self {
            waiters: Waiters::new(store.clone(), options.waiters_max),
            teller: Teller::new(store.clone()),
            // Beside the submissions: it is most wanted when they are many.
            gates: Gates::of(operators.clone()),
            operators,
            store,
        }
    }

    /// Who waits here.
    #[must_use]
    pub fn waiters(&self) -> &Waiters {
        &self.waiters
    }

    /// The gates, as this node knows them.
    #[must_use]
    pub fn gates(&self) -> &Gates {
        &self.gates
    }

    /// Who of this node wants to [listen](crate::listener::listen).
    #[must_use]
    pub fn hearers(&self) -> Vec<Box<dyn Hear>> {
        vec![
            Box::new(self.waiters.clone()),
            Box::new(self.teller.clone()),
            Box::new(self.gates.clone()),
        ]
    }

    /// The whole API.
    pub fn router(&self, options: &HttpOptions) -> Router {
        let Self {
            store,
            operators,
            waiters,
            teller,
            gates,
        } = self;
        let connections = store.pool_options().get_max_connections() as usize;
        // Those who are woken together leave most connections to the other calls.
        let outlooks = Outlooks::new(store.clone(), (connections / 4).max(1));
        let refreshes = Outlooks::new(store.clone(), 1);
        let admission = Admission::new(options.concurrency_limit);
        let document = document();
        let statistics = Statistics::new(store.clone());
        let metrics = Arc::new(NodeMetrics::new(
            operators,
            statistics.clone(),
            document.paths.paths.keys().cloned(),
            admission.clone(),
            waiters.clone(),
            gates.clone(),
        ));
        let polls = Polls::new(statistics, metrics.counting().clone());
        let api = Arc::new(Api {
            submitter: Submitter::new(
                store.clone(),
                gates.clone(),
                options.request_timeout,
                metrics.group_sizes(),
            ),
            polls,
            looks: Arc::new(Semaphore::new((connections * 3 / 4).max(1))),
            metrics: Arc::clone(&metrics),
            store: store.clone(),
            body_limit: options.body_limit,
            streams: Arc::new(Streams::new(
                waiters.clone(),
                refreshes,
                options.streams_max,
                options.stream_time,
            )),
            waiters: waiters.clone(),
            outlooks,
            wait_max: options.wait_max,
            teller: teller.clone(),
            gates: gates.clone(),
            document: document.to_json().unwrap_or_default().into(),
        });
        let operating = Arc::new(Api {
            store: operators.clone(),
            ..Api::clone(&api)
        });
        let (calls, operations) = self.calls(options, &admission, &metrics);
        let routes = calls.with_state(api);
        let routes = routes.merge(operations.with_state(operating));
        let routes = timely(routes, options.request_timeout);
        guarded(routes).layer(middleware::from_fn_with_state(metrics, metrics::measure))
    }

    /// The calls of callers, the downstream and monitoring, and those that operators' connections serve.
    fn calls(
        &self,
        options: &HttpOptions,
        admission: &Admission,
        metrics: &Arc<NodeMetrics>,
    ) -> (Router<Arc<Api>>, Router<Arc<Api>>) {
        let access = Access::new(self.operators.clone(), options.keys_required);
        // Who may not call takes no place from those who may, so the guard is the outer layer.
        let limited = |scope, routes: Router<Arc<Api>>| {
            let admission = admission.clone();
            let routes = routes.route_layer(middleware::from_fn_with_state(admission, limits::admit));
            access.guard(scope, routes)
        };
        let keeper = rate_limit::Keeper {
            gates: self.gates.clone(),
            metrics: Arc::clone(metrics),
            body_limit: options.body_limit,
        };
        let posting =
            Router::from(routes::posting()).route_layer(middleware::from_fn_with_state(keeper, rate_limit::keep));
        let submitting = posting.merge(Router::from(routes::asking()));
        let v1 = limited(Scope::Submit, submitting).merge(limited(Scope::Respond, Router::from(routes::responding())));
        // What gets a node out of trouble must not wait behind what got it in there.
        let admin = admin::nothing_else(Router::from(admin::routes()))
            .route_layer(middleware::from_fn_with_state(Admission::new(ADMINS), limits::admit));
        let admin = access.guard(Scope::Admin, admin);
        let figures = access
            .as_far_as_known()
            .guard(Scope::Admin, Router::from(routes::figures()));
        let free = Router::from(routes::free()).merge(openapi::page());
        (v1.merge(figures), admin.merge(free))
    }
}

// A method that a path does not have is answered by `wrong_method`, which axum completes with `Allow`.

/// What holds for every call: a path that leads nowhere is a problem, and so is an answer that does not come in time.
fn timely(routes: Router, request_timeout: Duration) -> Router {
    routes
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn_with_state(request_timeout, limits::in_time))
}

/// What holds for every answer: it is a problem when it is an error, and nobody caches it.
fn guarded(routes: Router) -> Router {
    routes
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
