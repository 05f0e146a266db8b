//! The HTTP API: one file a resource, problem details (RFC 9457) for every error.
//!
//! A crash of a node loses nothing: a 202 is sent only after the database has committed, and every answer is read from
//! the database for its call.

mod admin;
pub(crate) mod answers;
mod batch;
mod body;
mod context;
mod events;
mod guard;
mod health;
mod layers;
mod limits;
mod list;
pub(crate) mod metrics;
mod openapi;
mod path;
mod poll;
mod prefer;
pub(crate) mod problem;
mod quote;
mod rate_limit;
mod resolution;
mod responses;
mod retry_after_header;
pub(crate) mod routes;
pub(crate) mod server;
mod submit;
pub mod traced;
mod waiting;

use std::sync::Arc;

use axum::{Router, middleware};
use tidegate::internals::api_key::Scope;

use self::{
    context::Api,
    guard::guard,
    layers::{guarded, timely},
};
use crate::state::{node::Node, places::Places, streams::Streams};

/// How many calls of `/v1/admin` may be under way; they do not count against the other limit.
const ADMIN_CALLS: usize = 16;

impl Node {
    /// The whole API, with `/metrics`, health checks and its document. It answers unknown paths, too; so a program with
    /// a fallback of its own merges it after [`Router::reset_fallback`].
    pub fn router(&self) -> Router {
        let options = &self.options.http;
        let document = routes::document();
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
        let limited = |scope, places: &Places, routes: Router<Arc<Api>>| {
            let limit = middleware::from_fn_with_state(places.clone(), limits::admit);
            guard(access, scope, routes.route_layer(limit))
        };
        let at_gate = middleware::from_fn_with_state(Arc::clone(&api), rate_limit::at_gate);
        let submissions = Router::from(routes::submissions()).route_layer(at_gate);
        let submitters = submissions.merge(Router::from(routes::queries()));
        let monitoring = access.with_old_keys();
        let calls = limited(Scope::Submit, &self.places, submitters)
            .merge(limited(Scope::Respond, &self.places, Router::from(routes::responses())))
            .merge(guard(&monitoring, Scope::Admin, Router::from(routes::monitoring())));
        // Repairing a node must not wait for the calls that overload it.
        let admin = admin::nothing_else(Router::from(admin::routes()));
        let operations = limited(Scope::Admin, &Places::new(ADMIN_CALLS), admin)
            .merge(Router::from(routes::health()))
            .merge(Router::from(routes::documents()))
            .merge(openapi::page());
        let operations = operations.with_state(Arc::new(operators_api));
        let routes = guarded(timely(calls.with_state(api).merge(operations), options.request_timeout));
        routes.layer(middleware::from_fn_with_state(Arc::clone(&self.metrics), metrics::measure))
    }
}
