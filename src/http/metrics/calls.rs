//! Counts every call by route, method and status, and measures its duration.
//!
//! Routes are those of the API's document, so invented paths cost no memory. The first call of a sort makes its
//! counter; after that, counting is a lookup in a small table and two atomic additions.

use std::{
    array,
    collections::HashMap,
    sync::{Arc, OnceLock},
    time::Instant,
};

use ::metrics::{Counter, Histogram};
use axum::{
    extract::{MatchedPath, Request, State},
    http::StatusCode,
    middleware::Next,
    response::Response,
};

use super::NodeMetrics;
use crate::telemetry::metrics::{
    Metrics,
    catalogue::{HTTP_DURATION, HTTP_REQUESTS},
};

/// The label of all unknown paths.
const UNMATCHED: &str = "unmatched";

/// The page that shows the document, with all its files.
const PAGE: &str = "/docs";

const METHODS: [&str; 8] = ["GET", "POST", "DELETE", "PATCH", "PUT", "HEAD", "OPTIONS", "other"];

/// The calls of each route, by the index of their method in [`METHODS`].
pub(super) struct Calls {
    metrics: Metrics,
    routes: HashMap<String, [OnceLock<ByMethod>; METHODS.len()]>,
}

/// The calls of one route by one method.
struct ByMethod {
    duration: Histogram,
    /// By status, from 200 on. The API sends no others.
    counts: Box<[OnceLock<Counter>; 400]>,
}

impl Calls {
    /// For calls of these routes; all others are counted together.
    pub(super) fn new(metrics: Metrics, routes: impl Iterator<Item = String>) -> Self {
        let routes = routes
            .chain([UNMATCHED.to_owned(), PAGE.to_owned()])
            .map(|route| (route, array::from_fn(|_| OnceLock::new())))
            .collect();
        Self { metrics, routes }
    }

    fn count(&self, route: &str, method: usize, status: StatusCode, began: Instant) {
        let other = if route.starts_with(PAGE) { PAGE } else { UNMATCHED };
        let known = |route: &str| self.routes.get_key_value(route);
        let Some((route, methods)) = known(route).or_else(|| known(other)) else {
            return;
        };
        let (route, word) = (route.as_str(), METHODS[method]);
        let calls = methods[method].get_or_init(|| ByMethod {
            duration: self
                .metrics
                .histogram(&HTTP_DURATION, &[("route", route), ("method", word)]),
            counts: Box::new(array::from_fn(|_| OnceLock::new())),
        });
        calls.duration.record(began.elapsed());
        if let Some(count) = calls.counts.get(usize::from(status.as_u16()).wrapping_sub(200)) {
            let labels = || [("route", route), ("method", word), ("status", status.as_str())];
            count
                .get_or_init(|| self.metrics.counter(&HTTP_REQUESTS, &labels()))
                .increment(1);
        }
        self.metrics.upkeep();
    }
}

/// The outermost layer, so that it counts the answers that callers get.
pub(in crate::http) async fn measure(
    State(metrics): State<Arc<NodeMetrics>>,
    request: Request,
    next: Next,
) -> Response {
    let began = Instant::now();
    let known = METHODS.iter().position(|word| *word == request.method().as_str());
    let route = request.extensions().get::<MatchedPath>().cloned();
    let response = next.run(request).await;
    let route = route.as_ref().map_or(UNMATCHED, MatchedPath::as_str);
    metrics
        .calls
        .count(route, known.unwrap_or(METHODS.len() - 1), response.status(), began);
    response
}
