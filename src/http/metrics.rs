//! Metrics of this node, and `/metrics`, which exports them.

mod recent_polls;

use std::{
    collections::HashSet,
    sync::{Arc, Mutex},
    time::Instant,
};

use ::metrics::Histogram;
use axum::{
    Router,
    extract::{MatchedPath, Request, State},
    http::header::CONTENT_TYPE,
    middleware::Next,
    response::{IntoResponse, Response},
    routing::get,
};

use self::recent_polls::RecentPolls;
use super::{
    Api,
    limits::Admission,
    openapi::refusals::{Anywhere, Asking, Guarded, Refusals},
    statistics::Statistics,
};
use crate::{
    error::StoreError,
    gate::Gates,
    lock::lock,
    news::Waiters,
    store::{Outlook, Store, Submitted},
    telemetry::metrics::{Metrics, PerKind, catalogue::*, exporter::one_if, overview::Overview},
};

/// The version of Prometheus' text format.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The label of all unknown paths.
const UNMATCHED: &str = "unmatched";

/// The page that shows the document, with all its files.
const PAGE: &str = "/docs";

const METHODS: [&str; 7] = ["GET", "POST", "DELETE", "PATCH", "PUT", "HEAD", "OPTIONS"];

/// The counters of a node, and the sources of its gauges.
pub(super) struct NodeMetrics {
    metrics: Metrics,
    /// The paths of the API's document.
    routes: HashSet<String>,
    submissions: PerKind,
    statistics: Statistics,
    polls: PerKind,
    recent_polls: Mutex<RecentPolls>,
    refusals: PerKind,
    overview: Overview,
    admission: Admission,
    waiters: Waiters,
    gates: Gates,
}

impl NodeMetrics {
    /// Of a node over `store`, which answers operators over `operators`.
    pub(super) fn new(
        metrics: Metrics,
        (store, operators): (&Store, &Store),
        routes: impl Iterator<Item = String>,
        admission: Admission,
        waiters: Waiters,
        gates: Gates,
    ) -> Self {
        Self {
            routes: routes.collect(),
            statistics: Statistics::new(store.clone()),
            submissions: PerKind::new(metrics.clone(), &SUBMISSIONS, &["accepted", "replayed", "refused", "failed"]),
            polls: PerKind::new(metrics.clone(), &POLLS, &["in_progress", "ended"]),
            recent_polls: Mutex::default(),
            refusals: PerKind::new(metrics.clone(), &GATE_REFUSALS, &["copy", "database"]),
            overview: Overview::new(operators),
            admission,
            waiters,
            gates,
            metrics,
        }
    }

    /// Where it counts.
    pub(super) fn recorded(&self) -> &Metrics {
        &self.metrics
    }

    /// The histogram of submissions per statement.
    pub(super) fn group_sizes(&self) -> Histogram {
        self.metrics.histogram(&SUBMISSION_GROUP_SIZE, &[])
    }

    pub(super) fn submitted(&self, kind: &str, submitted: &Submitted) {
        let outcome = match submitted {
            Submitted::Accepted(_) => "accepted",
            Submitted::Replayed(_) => "replayed",
            Submitted::Refused { .. } => "refused",
        };
        self.submissions.count(kind, outcome);
        if outcome == "refused" {
            self.refusals.count(kind, "database");
        }
    }

    /// A submission was refused by this node's copy of the gates, which has the kind.
    pub(super) fn refused_from_memory(&self, kind: &str) {
        self.submissions.count(kind, "refused");
        self.refusals.count(kind, "copy");
    }

    pub(super) fn submission_failed(&self, kind: &str, error: &StoreError) {
        match error {
            StoreError::KeyReused(_) | StoreError::KeyMissing(_) | StoreError::KindNotConfigured(_) => {
                self.submissions.count(kind, "failed");
            }
            _ => self.submissions.count_unproven(kind, "failed"),
        }
    }

    /// Counts a request that a poll of several has found. These polls are not in the statistics of single requests: the
    /// caller comes when the last of them is expected to be ready.
    pub(super) fn found(&self, outlook: &Outlook) {
        let ended = outlook.status.is_terminal();
        self.polls.count(&outlook.kind, if ended { "ended" } else { "in_progress" });
    }

    /// Counts a poll that is answered with this outlook.
    pub(super) fn polled(&self, outlook: &Outlook) {
        self.found(outlook);
        let Outlook { id, kind, elapsed, .. } = outlook;
        let ended = outlook.status.is_terminal();
        let polls = lock(&self.recent_polls).count(*id, ended);
        if let Some(polls) = polls {
            let histogram = |metric| self.metrics.histogram(metric, &[("kind", kind)]);
            histogram(&POLLS_PER_REQUEST).record(polls as f64);
            histogram(&POLL_LATENESS).record(*elapsed);
            self.statistics.answered(kind, polls, *elapsed);
        }
    }

    pub(super) async fn render(&self, store: &Store) -> String {
        let overview = self.overview.render().await;
        self.metrics.record_database(store);
        let (taken, places) = self.admission.taken();
        let waiting = self.waiters.waiting();
        for (metric, labels, value) in [
            (&HTTP_IN_FLIGHT, None, taken),
            (&HTTP_IN_FLIGHT_MAX, None, places),
            (&WAITING_CALLERS, Some(("how", "held")), waiting.waiters - waiting.following),
            (&WAITING_CALLERS, Some(("how", "stream")), waiting.following),
            (&WAITING_CALLERS_MAX, None, self.waiters.places()),
        ] {
            self.metrics.set(metric, labels.as_slice(), value as f64);
        }
        self.metrics.render() + &self.gate_copy() + &overview
    }

    /// The gauges of the node's copy of the gates. Collected anew each time, so that a removed gate disappears.
    fn gate_copy(&self) -> String {
        let Some((gates, age)) = self.gates.all() else {
            return String::new();
        };
        let metrics = Metrics::empty();
        for gate in gates {
            metrics.set(&GATE_COPY_CLOSED, &[("gate", &gate.name)], one_if(!gate.accepting));
        }
        metrics.set(&GATE_COPY_AGE, &[], age.as_secs_f64());
        metrics.render()
    }
}

/// Counts a call by route, method and status, and measures its duration. The outermost layer, so that it counts the
/// answers that callers get. Invented paths and methods are counted together, so they cost no memory.
pub(super) async fn measure(State(node): State<Arc<NodeMetrics>>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let method = METHODS.iter().find(|method| **method == request.method().as_str());
    let path = request.extensions().get::<MatchedPath>().cloned();
    let response = next.run(request).await;
    let route = match path.as_ref().map_or(UNMATCHED, MatchedPath::as_str) {
        route if node.routes.contains(route) => route,
        route if route.starts_with(PAGE) => PAGE,
        _ => UNMATCHED,
    };
    let labels = [("route", route), ("method", method.unwrap_or(&"other"))];
    node.metrics.histogram(&HTTP_DURATION, &labels).record(began.elapsed());
    let status = response.status();
    let labels = [labels[0], labels[1], ("status", status.as_str())];
    node.metrics.counter(&HTTP_REQUESTS, &labels).increment(1);
    node.metrics.upkeep();
    response
}

/// Metrics for monitoring.
///
/// In Prometheus' text format; `docs/operations.md` describes them. Without the database it answers with the metrics of
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
pub fn metrics_router(metrics: Metrics, store: Store) -> Router {
    let render = move || async move {
        metrics.record_database(&store);
        ([(CONTENT_TYPE, TEXT)], metrics.render())
    };
    let routes = Router::new().route("/metrics", get(render));
    super::guarded(super::timely(routes, super::HttpOptions::default().request_timeout))
}
