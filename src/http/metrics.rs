//! Metrics of this node, and `/metrics`, which exports them.

mod calls;
mod recent_polls;

use std::sync::{Arc, Mutex, PoisonError};

use ::metrics::Histogram;
use axum::{Router, extract::State, http::header::CONTENT_TYPE, response::IntoResponse, routing::get};

pub(super) use self::calls::measure;
use self::{calls::Calls, recent_polls::RecentPolls};
use super::{
    Api, Node,
    limits::Admission,
    openapi::refusals::{Anywhere, Asking, Guarded, Refusals},
    statistics::Statistics,
};
use crate::{
    error::StoreError,
    store::{Outlook, Store, Submitted},
    telemetry::metrics::{
        Metrics, PerKind,
        catalogue::{
            GATE_COPY_AGE, GATE_COPY_CLOSED, GATE_REFUSALS, HTTP_IN_FLIGHT, HTTP_IN_FLIGHT_MAX, POLL_LATENESS, POLLS,
            POLLS_PER_REQUEST, SUBMISSION_GROUP_SIZE, SUBMISSIONS, WAITING_CALLERS, WAITING_CALLERS_MAX,
        },
        overview::Overview,
    },
};

/// The version of Prometheus' text format.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

const OUTCOMES: [&str; 4] = ["accepted", "replayed", "refused", "failed"];
const REFUSED_BY: [&str; 2] = ["copy", "database"];
const ANSWERS: [&str; 2] = ["in_progress", "ended"];

/// The counters of a node, and the sources of its gauges.
pub(super) struct NodeMetrics {
    metrics: Metrics,
    calls: Calls,
    submissions: PerKind<{ OUTCOMES.len() }>,
    statistics: Statistics,
    polls: PerKind<{ ANSWERS.len() }>,
    recent_polls: Mutex<RecentPolls>,
    refusals: PerKind<{ REFUSED_BY.len() }>,
    overview: Overview,
    admission: Admission,
    node: Node,
}

impl NodeMetrics {
    pub(super) fn new(node: Node, routes: impl Iterator<Item = String>, admission: Admission) -> Self {
        let metrics = Metrics::new();
        Self {
            calls: Calls::new(metrics.clone(), routes),
            statistics: Statistics::new(node.store.clone()),
            submissions: PerKind::new(metrics.clone(), &SUBMISSIONS, OUTCOMES),
            polls: PerKind::new(metrics.clone(), &POLLS, ANSWERS),
            recent_polls: Mutex::default(),
            refusals: PerKind::new(metrics.clone(), &GATE_REFUSALS, REFUSED_BY),
            overview: Overview::new(&node.operators),
            admission,
            node,
            metrics,
        }
    }

    /// The histogram of submissions per statement.
    pub(super) fn group_sizes(&self) -> Histogram {
        self.metrics.histogram(&SUBMISSION_GROUP_SIZE, &[])
    }

    pub(super) fn submitted(&self, kind: &str, submitted: &Submitted) {
        let outcome = match submitted {
            Submitted::Accepted(_) => 0,
            Submitted::Replayed(_) => 1,
            Submitted::Refused { .. } => 2,
        };
        self.submissions.count(kind, outcome);
        if outcome == 2 {
            self.refusals.count(kind, 1);
        } else {
            self.statistics.submitted(kind, outcome == 1);
        }
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

    /// Counts a poll that is answered with this outlook.
    pub(super) fn polled(&self, outlook: &Outlook) {
        let Outlook { id, kind, elapsed, .. } = outlook;
        let ended = outlook.status.is_terminal();
        self.polls.count(kind, usize::from(ended));
        let recent_polls = self.recent_polls.lock();
        // No panic leaves the counts inconsistent.
        let polls = recent_polls.unwrap_or_else(PoisonError::into_inner).count(*id, ended);
        if let Some(polls) = polls {
            let histogram = |metric| self.metrics.histogram(metric, &[("kind", kind)]);
            histogram(&POLLS_PER_REQUEST).record(polls as f64);
            histogram(&POLL_LATENESS).record(*elapsed);
            self.statistics.answered(kind, polls, *elapsed);
        }
    }

    async fn render(&self, store: &Store) -> String {
        let overview = self.overview.render().await;
        self.metrics.record_database(store);
        let set = |metric, labels: &[_], value: usize| {
            self.metrics.gauge(metric, labels).set(value as f64);
        };
        let (taken, places) = self.admission.taken();
        set(&HTTP_IN_FLIGHT, &[], taken);
        set(&HTTP_IN_FLIGHT_MAX, &[], places);
        let waiting = self.node.waiters.waiting();
        let held = waiting.waiters.saturating_sub(waiting.following);
        set(&WAITING_CALLERS, &[("how", "held")], held);
        set(&WAITING_CALLERS, &[("how", "stream")], waiting.following);
        set(&WAITING_CALLERS_MAX, &[], self.node.waiters.places());
        self.metrics.render() + &self.gate_copy() + &overview
    }

    /// The gauges of the node's copy of the gates. Collected anew each time, so that a removed gate disappears.
    fn gate_copy(&self) -> String {
        let Some((gates, age)) = self.node.gates.all() else {
            return String::new();
        };
        let metrics = Metrics::empty();
        for gate in gates {
            let closed = f64::from(u8::from(!gate.accepting));
            metrics.gauge(&GATE_COPY_CLOSED, &[("gate", &gate.name)]).set(closed);
        }
        metrics.gauge(&GATE_COPY_AGE, &[]).set(age.as_secs_f64());
        metrics.render()
    }
}

/// `GET /metrics`: metrics for Prometheus; `docs/operations.md` describes them. Without the database it answers with
/// the metrics of this process only.
#[utoipa::path(
    get,
    path = "/metrics",
    summary = "Metrics for monitoring",
    responses(
        (status = 200, description = "Prometheus' text format", content_type = "text/plain", body = String),
        Refusals<(Anywhere, Asking, Guarded)>,
    ),
)]
pub(super) async fn metrics(State(api): State<Arc<Api>>) -> impl IntoResponse {
    ([(CONTENT_TYPE, TEXT)], api.metrics.render(&api.store).await)
}

/// Only `/metrics`, for a process that serves no API: its own metrics, without those that every node reads from the
/// database.
pub fn metrics_router(metrics: Metrics, store: Store) -> Router {
    let render = move || async move {
        metrics.record_database(&store);
        ([(CONTENT_TYPE, TEXT)], metrics.render())
    };
    super::guarded(super::timely(
        Router::new().route("/metrics", get(render)),
        super::HttpOptions::default().request_timeout,
    ))
}
