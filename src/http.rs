//! The HTTP API: one file a resource, problem details (RFC 9457) for every error.
//!
//! A node keeps nothing that a crash could lose: a 202 leaves only after the database has committed, and every answer
//! is read from the database when it is asked for.

mod access;
mod admin;
mod batch;
mod body;
mod grouping;
mod health;
mod json;
mod limits;
mod list;
mod path;
mod poll;
mod polls;
mod problem;
mod rate_limit;
mod responses;
mod server;
mod submit;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    http::{Method, Uri},
    middleware,
    routing::{get, post},
};
use tower_http::{catch_panic::CatchPanicLayer, trace::TraceLayer};

pub use self::server::{ConnectionOptions, serve, serve_within};
use self::{
    access::Access, grouping::Submitter, limits::Admission, polls::Polls, problem::Problem,
};
use crate::{api_key::Scope, gate::Gates, store::Store};

/// What the API allows its callers.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// The largest body, in bytes; a larger one gets 413.
    pub body_limit: usize,
    /// How long one request may take, its body included; a slower one gets 503.
    pub request_timeout: Duration,
    /// How many requests of `/v1` may be under way; one more gets 503 at once, because an endless queue helps nobody.
    pub concurrency_limit: usize,
    /// Whether calls have to show an API key even while there is none: for a node that listens beyond loopback.
    pub keys_required: bool,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            body_limit: 1024 * 1024,
            request_timeout: Duration::from_secs(30),
            concurrency_limit: 1024,
            keys_required: false,
        }
    }
}

/// How many calls of `/v1/admin` may be under way, beside the others.
const ADMINS: usize = 16;

/// What the handlers share.
struct Api {
    store: Store,
    submitter: Submitter,
    polls: Polls,
    body_limit: usize,
}

/// The whole API over one database.
pub fn router(store: Store, options: &HttpOptions) -> Router {
    let admission = Admission::new(options.concurrency_limit);
    let gates = Gates::of(store.clone());
    let access = Access::new(store.clone(), options.keys_required);
    let api = Arc::new(Api {
        submitter: Submitter::new(store.clone(), options.request_timeout),
        polls: Polls::new(store.clone()),
        store,
        body_limit: options.body_limit,
    });
    // Who may not call takes no place from those who may, so the guard is the outer layer.
    let limited = |scope, routes: Router<Arc<Api>>| {
        let admission = admission.clone();
        let routes = routes.route_layer(middleware::from_fn_with_state(admission, limits::admit));
        access.guard(scope, routes)
    };

    let telling_the_room = || middleware::from_fn_with_state(gates.clone(), rate_limit::tell);

    // A method that a path does not have is answered by `wrong_method`, which axum completes with `Allow`.
    let submitting = Router::new()
        .route(
            "/v1/{kind}",
            post(submit::submit)
                .layer(telling_the_room())
                .get(list::list),
        )
        .route(
            "/v1/{kind}/batch",
            post(batch::submit).layer(telling_the_room()),
        )
        .route("/v1/{kind}/{job_id}", get(poll::poll).delete(poll::cancel));
    let responding = Router::new()
        .route("/v1/responses", post(responses::respond))
        .route(
            "/v1/{kind}/{job_id}/responses",
            post(responses::respond_to_job),
        );
    let v1 = limited(Scope::Submit, submitting).merge(limited(Scope::Respond, responding));
    // Health is asked most urgently when the node is full, so it takes no place among the limited requests.
    let health = Router::new()
        .route("/livez", get(health::live))
        .route("/readyz", get(health::ready));

    // What gets a node out of trouble must not wait behind what got it in there.
    let admin = admin::routes().route_layer(middleware::from_fn_with_state(
        Admission::new(ADMINS),
        limits::admit,
    ));
    let admin = access.guard(Scope::Admin, admin);

    guarded(
        v1.merge(admin).merge(health).with_state(api),
        options.request_timeout,
    )
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
