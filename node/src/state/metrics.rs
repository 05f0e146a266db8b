//! Metrics of this node: what it counts, and what it reads from the database.

mod eta_quality;
pub(crate) mod exporter;
pub(crate) mod overview;
mod per_kind;
mod recent_polls;
mod stages;

use std::{collections::HashSet, sync::Mutex, time::Duration};

use metrics::Histogram;
use tidegate::internals::{
    error::StoreError,
    lock::lock,
    metrics::{Metrics, catalogue::*},
    news::Waiters,
    store::{Outlook, Store, Submitted},
};

use self::{
    exporter::{Exporter, one_if},
    overview::Overview,
    per_kind::PerKind,
    recent_polls::RecentPolls,
};
use super::{gates::Gates, places::Places, statistics::Statistics};

/// The label of all unknown paths.
const UNMATCHED: &str = "unmatched";

/// The page that shows the document, with all its files.
const PAGE: &str = "/docs";

/// The methods that are counted by their names.
const METHODS: [&str; 7] = ["GET", "POST", "DELETE", "PATCH", "PUT", "HEAD", "OPTIONS"];

/// The counters of a node, and the sources of its gauges.
pub(crate) struct NodeMetrics {
    exporter: Exporter,
    metrics: Metrics,
    /// The paths of the API's document.
    routes: HashSet<String>,
    submissions: PerKind,
    statistics: Statistics,
    polls: PerKind,
    recent_polls: Mutex<RecentPolls>,
    refusals: PerKind,
    overview: Overview,
    places: Places,
    waiters: Waiters,
    gates: Gates,
}

impl NodeMetrics {
    /// Of a node over `store`, which answers operators over `operators`.
    pub(crate) fn new(
        exporter: Exporter,
        (store, operators): (&Store, &Store),
        routes: HashSet<String>,
        places: Places,
        waiters: Waiters,
        gates: Gates,
    ) -> Self {
        let metrics = exporter.metrics();
        Self {
            routes,
            statistics: Statistics::new(store.clone()),
            submissions: PerKind::new(metrics.clone(), &SUBMISSIONS, &["accepted", "replayed", "refused", "failed"]),
            polls: PerKind::new(metrics.clone(), &POLLS, &["in_progress", "ended"]),
            recent_polls: Mutex::default(),
            refusals: PerKind::new(metrics.clone(), &GATE_REFUSALS, &["copy", "database"]),
            overview: Overview::new(operators),
            places,
            waiters,
            gates,
            metrics,
            exporter,
        }
    }

    /// What renders these.
    pub(crate) fn exporter(&self) -> &Exporter {
        &self.exporter
    }

    /// The histogram of submissions per statement.
    pub(crate) fn group_sizes(&self) -> Histogram {
        self.metrics.histogram(&SUBMISSION_GROUP_SIZE, &[])
    }

    pub(crate) fn submitted(&self, kind: &str, submitted: &Submitted) {
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
    pub(crate) fn refused_from_memory(&self, kind: &str) {
        self.submissions.count(kind, "refused");
        self.refusals.count(kind, "copy");
    }

    pub(crate) fn submission_failed(&self, kind: &str, error: &StoreError) {
        match error {
            StoreError::KeyReused(_) | StoreError::KeyMissing(_) | StoreError::KindNotConfigured(_) => {
                self.submissions.count(kind, "failed");
            }
            _ => self.submissions.count_unproven(kind, "failed"),
        }
    }

    /// Counts a request that a poll of several has found. These polls are not in the statistics of single requests: the
    /// caller comes when the last of them is expected to be ready.
    pub(crate) fn found(&self, outlook: &Outlook) {
        let ended = outlook.status.is_terminal();
        self.polls.count(&outlook.kind, if ended { "ended" } else { "in_progress" });
    }

    /// Counts a poll that is answered with this outlook.
    pub(crate) fn polled(&self, outlook: &Outlook) {
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

    /// Counts a call of the API by route, method and status, and observes its duration. Invented paths and methods are
    /// counted together, so they cost no memory.
    pub(crate) fn called(&self, route: Option<&str>, method: &str, status: &str, duration: Duration) {
        let method = METHODS.iter().find(|known| **known == method).unwrap_or(&"other");
        let route = match route.unwrap_or(UNMATCHED) {
            route if self.routes.contains(route) => route,
            route if route.starts_with(PAGE) => PAGE,
            _ => UNMATCHED,
        };
        let labels = [("route", route), ("method", method)];
        self.metrics.histogram(&HTTP_DURATION, &labels).record(duration);
        let labels = [labels[0], labels[1], ("status", status)];
        self.metrics.counter(&HTTP_REQUESTS, &labels).increment(1);
        self.metrics.upkeep();
    }

    pub(crate) async fn render(&self, store: &Store) -> String {
        let overview = self.overview.render().await;
        self.exporter.record_database(store);
        let (taken, most) = self.places.taken();
        let waiting = self.waiters.waiting();
        for (metric, labels, value) in [
            (&HTTP_IN_FLIGHT, None, taken),
            (&HTTP_IN_FLIGHT_MAX, None, most),
            (&WAITING_CALLERS, Some(("how", "held")), waiting.waiters - waiting.following),
            (&WAITING_CALLERS, Some(("how", "stream")), waiting.following),
            (&WAITING_CALLERS_MAX, None, self.waiters.places()),
        ] {
            self.metrics.set(metric, labels.as_slice(), value as f64);
        }
        self.exporter.render() + &self.gate_copy() + &overview
    }

    /// The gauges of the node's copy of the gates. Collected anew each time, so that a removed gate disappears.
    fn gate_copy(&self) -> String {
        let Some((gates, age)) = self.gates.all() else {
            return String::new();
        };
        let exporter = Exporter::empty();
        let metrics = exporter.metrics();
        for gate in gates {
            metrics.set(&GATE_COPY_CLOSED, &[("gate", &gate.name)], one_if(!gate.accepting));
        }
        metrics.set(&GATE_COPY_AGE, &[], age.as_secs_f64());
        exporter.render()
    }
}
