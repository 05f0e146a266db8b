//! Figures about this process, in the form Prometheus reads. [`catalogue`] says which there are.
//!
//! There is no recorder for the whole process: whoever counts holds a [`Metrics`] of its own, so that several nodes
//! in one process count apart. Handles are made once and kept: counting is then one atomic addition.

pub mod catalogue;
mod eta_quality;
pub mod gates;
pub mod overview;
mod per_kind;
mod stages;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Label, Level, Metadata, Recorder};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};

use self::catalogue::{Form, Metric};
pub use self::per_kind::PerKind;
use crate::store::Store;

/// What metrics-rs wants to know of who counts; nothing here filters by it.
const METADATA: Metadata<'static> = Metadata::new("tidegate", Level::INFO, None);

/// How often the single observations of histograms are added up. Between that and a scrape they take memory.
const UPKEEP: Duration = Duration::from_secs(5);

/// Counts, gauges and histograms of one node or worker. Clones count together.
#[derive(Clone, Default)]
pub struct Metrics(Option<Arc<Inner>>);

struct Inner {
    recorder: PrometheusRecorder,
    handle: PrometheusHandle,
    started: Instant,
    /// Milliseconds after `started`.
    upkeep_due: AtomicU64,
}

impl Metrics {
    /// Counts from zero.
    #[must_use]
    pub fn new() -> Self {
        let metrics = Self::empty();
        metrics
            .gauge(&catalogue::BUILD_INFO, &[("version", env!("CARGO_PKG_VERSION"))])
            .set(1);
        metrics
    }

    /// With nothing in it yet.
    fn empty() -> Self {
        let mut builder = PrometheusBuilder::new();
        for metric in catalogue::ALL {
            if let Form::Histogram(buckets) = metric.form {
                let matcher = Matcher::Full(metric.name.to_owned());
                // Refused only without buckets.
                builder = builder.set_buckets_for_metric(matcher, buckets).unwrap_or_default();
            }
        }
        let recorder = builder.build_recorder();
        for metric in catalogue::ALL {
            let name = KeyName::from_const_str(metric.name);
            match metric.form {
                Form::Counter => recorder.describe_counter(name, None, metric.help.into()),
                Form::Gauge => recorder.describe_gauge(name, None, metric.help.into()),
                Form::Histogram(_) => recorder.describe_histogram(name, None, metric.help.into()),
            }
        }
        Self(Some(Arc::new(Inner {
            handle: recorder.handle(),
            recorder,
            started: Instant::now(),
            upkeep_due: AtomicU64::new(0),
        })))
    }

    /// Counts nothing: for whoever is never asked. The default.
    #[must_use]
    pub fn off() -> Self {
        Self(None)
    }

    /// A counter. Ask once and keep it.
    pub fn counter(&self, metric: &Metric, labels: &[(&'static str, &str)]) -> Counter {
        self.0.as_ref().map_or_else(Counter::noop, |inner| {
            inner.recorder.register_counter(&key(metric, labels), &METADATA)
        })
    }

    /// A gauge.
    pub fn gauge(&self, metric: &Metric, labels: &[(&'static str, &str)]) -> Gauge {
        self.0.as_ref().map_or_else(Gauge::noop, |inner| {
            inner.recorder.register_gauge(&key(metric, labels), &METADATA)
        })
    }

    /// A histogram. Ask once and keep it; call [`upkeep`](Self::upkeep) now and then.
    pub fn histogram(&self, metric: &Metric, labels: &[(&'static str, &str)]) -> Histogram {
        self.0.as_ref().map_or_else(Histogram::noop, |inner| {
            inner.recorder.register_histogram(&key(metric, labels), &METADATA)
        })
    }

    /// Adds up what histograms have observed, when that is due. Cheap when it is not.
    pub fn upkeep(&self) {
        let Some(inner) = &self.0 else { return };
        let now = u64::try_from(inner.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let due = inner.upkeep_due.load(Ordering::Relaxed);
        let next = now + UPKEEP.as_millis() as u64;
        let order = Ordering::Relaxed;
        // One of those who find it due does it.
        if now >= due && inner.upkeep_due.compare_exchange(due, next, order, order).is_ok() {
            inner.handle.run_upkeep();
        }
    }

    /// Notes how it goes with the database, from what the store has counted.
    pub fn note_database(&self, store: &Store) {
        for (error, count) in store.error_counts() {
            self.counter(&catalogue::DATABASE_ERRORS, &[("error", error)])
                .absolute(count);
        }
        let (size, idle) = store.connections_now();
        let connections = |state| self.gauge(&catalogue::DATABASE_CONNECTIONS, &[("state", state)]);
        connections("idle").set(idle as f64);
        connections("in_use").set((size - idle) as f64);
        let most = store.pool_options().get_max_connections();
        self.gauge(&catalogue::DATABASE_CONNECTIONS_MAX, &[])
            .set(f64::from(most));
    }

    /// Everything, as text.
    #[must_use]
    pub fn render(&self) -> String {
        self.0.as_ref().map_or_else(String::new, |inner| inner.handle.render())
    }
}

fn key(metric: &Metric, labels: &[(&'static str, &str)]) -> Key {
    debug_assert!(
        labels.iter().map(|(name, _)| *name).eq(metric.labels.iter().copied()),
        "{} has the labels {:?}",
        metric.name,
        metric.labels
    );
    let labels: Vec<_> = labels
        .iter()
        .map(|(name, value)| Label::new(*name, (*value).to_owned()))
        .collect();
    Key::from_parts(metric.name, labels)
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Metrics" } else { "Metrics::off()" })
    }
}
