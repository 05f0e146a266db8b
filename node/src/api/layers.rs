//! What every route of the API has around it.

use std::time::Duration;

use axum::{
    Router,
    http::{Method, Uri},
    middleware,
};
use tower_http::{catch_panic::CatchPanicLayer, trace::TraceLayer};

use super::{
    limits,
    problem::{self, Problem},
};

/// Limits the time of every call; unknown paths and methods are answered with a problem.
pub(super) fn timely(routes: Router, request_timeout: Duration) -> Router {
    routes
        .fallback(unknown_path)
        // axum adds `Allow` to this answer.
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn_with_state(request_timeout, limits::in_time))
}

/// Makes a problem of a panic, and forbids caching of every answer.
pub(super) fn guarded(routes: Router) -> Router {
    routes
        .layer(CatchPanicLayer::custom(problem::of_panic))
        .layer(middleware::map_response(limits::never_cached))
        // Failures are logged by `problem`, with their cause.
        .layer(TraceLayer::new_for_http().on_failure(()))
}

pub(super) async fn unknown_path(uri: Uri) -> Problem {
    problem::UNKNOWN_PATH.because(format!("there is nothing at {}", uri.path()))
}

async fn wrong_method(method: Method, uri: Uri) -> Problem {
    problem::WRONG_METHOD.because(format!("{} does not take {method}", uri.path()))
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio_util::sync::CancellationToken;

    use super::{
        super::{health, server},
        *,
    };

    #[tokio::test]
    async fn a_panic_answers_500_and_the_next_call_is_served() {
        let routes = Router::new()
            .route("/panic", get(|| async { panic!("on purpose") as &'static str }))
            .route("/livez", get(health::live));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = guarded(timely(routes, Duration::from_secs(5)));
        tokio::spawn(server::serve(listener, router, CancellationToken::new()));
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
