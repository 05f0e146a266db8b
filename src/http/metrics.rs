//! Figures of this node, and where they are read: `/metrics`.

mod calls;

use std::sync::Arc;

use ::metrics::Histogram;
use axum::{Router, extract::State, http::header::CONTENT_TYPE, response::IntoResponse, routing::get};

use self::calls::Calls;
pub(super) use self::calls::measure;
use super::{
    Api,
    limits::Admission,
    openapi::refusals::{Anywhere, Asking, Guarded, Refusals},
    statistics::Statistics,
};
use crate::{
    error::StoreError,
    gate::Gates,
    news::Waiters,
    store::{Store, Submitted},
    telemetry::metrics::{
        Metrics, PerKind,
        catalogue::{
            GATE_REFUSALS, HTTP_IN_FLIGHT, HTTP_IN_FLIGHT_MAX, POLLS, SUBMISSION_GROUP_SIZE, SUBMISSIONS,
            WAITING_CALLERS, WAITING_CALLERS_MAX,
        },
        gates,
        overview::Overview,
    },
};

/// The version of Prometheus' text format.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

const OUTCOMES: [&str; 4] = ["accepted", "replayed", "refused", "failed"];
const REFUSED_BY: [&str; 2] = ["copy", "database"];
const ANSWERS: [&str; 2] = ["in_progress", "ended"];

/// What a node counts.
pub(super) struct NodeMetrics {
    metrics: Metrics,
    calls: Calls,
    submissions: PerKind<{ OUTCOMES.len() }>,
    statistics: Statistics,
    polls: PerKind<{ ANSWERS.len() }>,
    overview: Overview,
    admission: Admission,
    waiters: Waiters,
    refusals: PerKind<{ REFUSED_BY.len() }>,
    gates: Gates,
}

impl NodeMetrics {
    pub(super) fn new(
        store: &Store,
        statistics: Statistics,
        routes: impl Iterator<Item = String>,
        admission: Admission,
        waiters: Waiters,
        gates: Gates,
    ) -> Self {
        let metrics = Metrics::new();
        Self {
            calls: Calls::new(metrics.clone(), routes),
            statistics,
            submissions: PerKind::new(metrics.clone(), &SUBMISSIONS, OUTCOMES),
            polls: PerKind::new(metrics.clone(), &POLLS, ANSWERS),
            refusals: PerKind::new(metrics.clone(), &GATE_REFUSALS, REFUSED_BY),
            gates,
            overview: Overview::new(store),
            admission,
            waiters,
            metrics,
        }
    }

    /// What counts here.
    pub(super) fn counting(&self) -> &Metrics {
        &self.metrics
    }

    /// What observes how many submissions share a statement.
    pub(super) fn group_sizes(&self) -> Histogram {
        self.metrics.histogram(&SUBMISSION_GROUP_SIZE, &[])
    }

    pub(super) fn submitted(&self, kind: &str, submitted: &Submitted) {
        let outcome = match submitted {
            Submitted::Accepted(_) => {
                self.statistics.submitted(kind, false);
                0
            }
            Submitted::Replayed(_) => {
                self.statistics.submitted(kind, true);
                1
            }
            Submitted::Refused { .. } => {
                self.refusals.count(kind, 1);
                2
            }
        };
        self.submissions.count(kind, outcome);
    }

    /// A submission was refused by this node's copy of the gates, which knows the kind.
    pub(super) fn refused_from_memory(&self, kind: &str) {
        self.submissions.count(kind, 2);
        self.refusals.count(kind, 0);
    }

    pub(super) fn submission_failed(&self, kind: &str, error: &StoreError) {
        match error {
            StoreError::KeyReused(_) | StoreError::KindNotConfigured(_) => {
                self.submissions.count(kind, 3);
            }
            _ => self.submissions.count_unproven(kind, 3),
        }
    }

    pub(super) fn polled(&self, kind: &str, ended: bool) {
        self.polls.count(kind, usize::from(ended));
    }

    async fn render(&self, store: &Store) -> String {
        let overview = self.overview.render().await;
        self.metrics.note_database(store);
        let set = |metric, labels: &[_], value: usize| {
            self.metrics.gauge(metric, labels).set(value as f64);
        };
        let (taken, places) = self.admission.taken();
        set(&HTTP_IN_FLIGHT, &[], taken);
        set(&HTTP_IN_FLIGHT_MAX, &[], places);
        let waiting = self.waiters.waiting();
        let held = waiting.waiters.saturating_sub(waiting.following);
        set(&WAITING_CALLERS, &[("how", "held")], held);
        set(&WAITING_CALLERS, &[("how", "stream")], waiting.following);
        set(&WAITING_CALLERS_MAX, &[], self.waiters.places());
        let gates = self.gates.all();
        let gates = gates.map_or_else(String::new, |(gates, age)| gates::render(&gates, age));
        self.metrics.render() + &gates + &overview
    }
}

/// `GET /metrics`: figures for Prometheus. `docs/operations.md` says what they mean. Without the database it answers
/// too, with what this process knows by itself.
#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "metrics",
    tag = "documents",
    summary = "Figures for monitoring",
    responses(
        (status = 200, description = "Prometheus' text format", content_type = "text/plain", body = String),
        Refusals<(Anywhere, Asking, Guarded)>,
    ),
    security((), ("api_key" = ["admin"])),
)]
pub(super) async fn serve(State(api): State<Arc<Api>>) -> impl IntoResponse {
    ([(CONTENT_TYPE, TEXT)], api.metrics.render(&api.store).await)
}

/// Only `/metrics`, of a process that serves no API: its own figures, without those that every node reads from the
/// database.
pub fn metrics_router(metrics: Metrics, store: Store) -> Router {
    let render = move || async move {
        metrics.note_database(&store);
        ([(CONTENT_TYPE, TEXT)], metrics.render())
    };
    super::guarded(super::timely(
        Router::new().route("/metrics", get(render)),
        super::HttpOptions::default().request_timeout,
    ))
}
