//! The relayer's HTTP API, beside Tidegate's.
//!
//! Many statuses end a client's call: a poll is never answered 429, and a node that cannot reach the database answers
//! "still queued" to polls and "later" to submissions.

mod answer;
mod body;
mod health;
mod keys;
mod keyurl;
mod openapi;
mod poll;
mod submit;
mod version;

use std::{collections::HashSet, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Bytes,
    extract::{Path, Request, State, rejection::PathRejection},
    http::header::{CACHE_CONTROL, HeaderValue},
    middleware,
    response::Response,
    routing::{any, get, post},
};
use tidegate::{internals::store::Store, retry_after::RetryAfter};
use tidegate_node::{Node, internals::traced};
use tower_http::{
    catch_panic::CatchPanicLayer,
    trace::{DefaultMakeSpan, TraceLayer},
};
use tracing::Level;

pub use self::keys::credential;
use self::{answer::Answer, health::Dependencies, keyurl::KeyUrl};
use crate::{
    config::{Config, Duplicates},
    labels::{Label, Refusal},
    request::Family,
};

/// When to ask again while the database does not answer, or this node is full.
const AWAY: RetryAfter = RetryAfter::seconds(5);

/// How long the database may take for a call.
const PATIENCE: Duration = Duration::from_secs(15);

/// A node of the relayer's API. Cheap to clone; clones share their state.
#[derive(Clone)]
pub struct Relayer(Arc<Inner>);

struct Inner {
    node: Node,
    host_chains: HashSet<u64>,
    duplicates: Duplicates,
    key_url: KeyUrl,
    dependencies: Dependencies,
    /// The API's document, as text.
    document: Bytes,
}

impl Relayer {
    /// A node over one database, which takes keys where [`credential`] finds them.
    pub async fn new(node: Node, store: &Store, config: &Config) -> Self {
        Self(Arc::new(Inner {
            host_chains: config.host_chains.iter().map(|chain| chain.chain_id).collect(),
            duplicates: config.duplicates,
            key_url: KeyUrl::new(store, &config.keyurl),
            dependencies: Dependencies::new(store.clone(), &config.gateway).await,
            // A configuration has at least one.
            document: openapi::document(config.host_chains.first().map_or(0, |chain| chain.chain_id)).into(),
            node,
        }))
    }

    /// The routes of the relayer; calls of other paths go to `beside`.
    pub fn router(self, beside: Router) -> Router {
        let mut routes = Router::new()
            .route("/v2/keyurl", get(keyurl::key_url))
            .route("/liveness", get(health::liveness))
            .route("/healthz", get(health::health))
            .route("/version", get(version::version))
            .route("/openapi.json", get(openapi::openapi));
        for family in Family::ALL {
            let submit = move |State(relayer), request: Request| submit::submit(relayer, family, request);
            let in_span = move |request, next| traced::in_span(request, family.path(), next);
            let poll = move |State(relayer), job_id: Result<Path<String>, PathRejection>, request: Request| {
                // One that is no text is no UUID either.
                poll::poll(relayer, family, job_id.map_or_else(|_| String::new(), |id| id.0), request)
            };
            routes = routes
                .route(family.path(), post(submit).layer(middleware::from_fn(in_span)))
                .route(&format!("{}/{{job_id}}", family.path()), get(poll));
        }
        // The SDK reads no other body than the relayer's below these.
        for version in ["/v2", "/v3"] {
            for path in ["", "/", "/{*rest}"] {
                routes = routes.route(&format!("{version}{path}"), any(unknown));
            }
        }
        let span = DefaultMakeSpan::new().level(Level::INFO);
        routes
            .layer(CatchPanicLayer::custom(answer::of_panic))
            .layer(middleware::map_response(never_cached))
            // A failure is logged with its label.
            .layer(TraceLayer::new_for_http().make_span_with(span).on_failure(()))
            .with_state(self)
            .fallback_service(beside)
    }
}

async fn unknown() -> Answer {
    Refusal::new(Label::NotFound, "No such path").into()
}

async fn never_cached(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
