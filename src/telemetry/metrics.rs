//! Metrics of this process, in the text format of Prometheus. [`catalogue`] lists them.
//!
//! There is no recorder for the whole process: each component has its own [`Metrics`], so that several nodes in one
//! process count separately. On frequent paths handles are made once and kept: counting is then one atomic addition.

pub mod catalogue;
mod eta_quality;
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
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusRecorder};

use self::catalogue::{Form, Metric};
pub use self::per_kind::PerKind;
use crate::store::Store;

/// The metadata that metrics-rs requires; no filter uses it.
const METADATA: Metadata<'static> = Metadata::new("tidegate", Level::INFO, None);

/// How often the observations of histograms are aggregated. Until then each takes memory.
const UPKEEP: Duration = Duration::from_secs(5);

/// Counts, gauges and histograms of one node or worker. Clones count together.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    recorder: PrometheusRecorder,
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

    /// Without any value.
    pub(crate) fn empty() -> Self {
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
        Self(Arc::new(Inner {
            recorder,
            started: Instant::now(),
            upkeep_due: AtomicU64::new(0),
        }))
    }

    /// A counter, to be kept on frequent paths.
    pub fn counter(&self, metric: &Metric, labels: &[(&'static str, &str)]) -> Counter {
        self.0.recorder.register_counter(&key(metric, labels), &METADATA)
    }

    /// A gauge.
    pub fn gauge(&self, metric: &Metric, labels: &[(&'static str, &str)]) -> Gauge {
        self.0.recorder.register_gauge(&key(metric, labels), &METADATA)
    }

    /// A histogram, to be kept on frequent paths; call [`upkeep`](Self::upkeep) from time to time.
    pub fn histogram(&self, metric: &Metric, labels: &[(&'static str, &str)]) -> Histogram {
        self.0.recorder.register_histogram(&key(metric, labels), &METADATA)
    }

    /// Aggregates the observations of histograms, when that is due. Cheap when it is not.
    pub fn upkeep(&self) {
        let inner = &self.0;
        let now = u64::try_from(inner.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let due = inner.upkeep_due.load(Ordering::Relaxed);
        let next = now + UPKEEP.as_millis() as u64;
        let order = Ordering::Relaxed;
        // Only one of concurrent callers does it.
        if now >= due && inner.upkeep_due.compare_exchange(due, next, order, order).is_ok() {
            inner.recorder.handle().run_upkeep();
        }
    }

    /// Records the errors and connections that the store has counted.
    pub fn record_database(&self, store: &Store) {
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
        self.0.recorder.handle().render()
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

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}
