//! Metrics of this process, in the text format of Prometheus. [`catalogue`] lists them.
//!
//! There is no recorder for the whole process: each component has its own [`Metrics`], so that several nodes in one
//! process count separately. Making a handle is a look-up by name and labels; counting with one is an atomic addition.

pub mod catalogue;
mod eta_quality;
pub mod overview;
mod per_kind;
mod stages;

use std::{
    fmt,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use metrics::{Counter, Gauge, Histogram, Key, KeyName, Label, Level, Metadata, Recorder};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusRecorder};

use self::catalogue::{ALL, BUILD_INFO, DATABASE_CONNECTIONS, DATABASE_CONNECTIONS_MAX, DATABASE_ERRORS, Form, Metric};
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
    upkeep_due: Mutex<Instant>,
}

impl Metrics {
    /// Counts from zero.
    #[must_use]
    pub fn new() -> Self {
        let metrics = Self::empty();
        metrics.set(&BUILD_INFO, &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
        metrics
    }

    /// Without any value.
    pub(crate) fn empty() -> Self {
        let mut builder = PrometheusBuilder::new();
        for metric in ALL {
            if let Form::Histogram(buckets) = metric.form {
                let matcher = Matcher::Full(metric.name.to_owned());
                // Refused only without buckets.
                builder = builder.set_buckets_for_metric(matcher, buckets).unwrap_or_default();
            }
        }
        let recorder = builder.build_recorder();
        for metric in ALL {
            let name = KeyName::from_const_str(metric.name);
            match metric.form {
                Form::Counter => recorder.describe_counter(name, None, metric.help.into()),
                Form::Gauge => recorder.describe_gauge(name, None, metric.help.into()),
                Form::Histogram(_) => recorder.describe_histogram(name, None, metric.help.into()),
            }
        }
        Self(Arc::new(Inner {
            recorder,
            upkeep_due: Instant::now().into(),
        }))
    }

    /// A counter.
    pub fn counter(&self, metric: &Metric, labels: &[(&'static str, &str)]) -> Counter {
        self.0.recorder.register_counter(&key(metric, labels), &METADATA)
    }

    /// A gauge.
    pub fn gauge(&self, metric: &Metric, labels: &[(&'static str, &str)]) -> Gauge {
        self.0.recorder.register_gauge(&key(metric, labels), &METADATA)
    }

    /// A histogram; call [`upkeep`](Self::upkeep) from time to time.
    pub fn histogram(&self, metric: &Metric, labels: &[(&'static str, &str)]) -> Histogram {
        self.0.recorder.register_histogram(&key(metric, labels), &METADATA)
    }

    /// Sets a gauge. One without a value is left out, because zero would look healthy.
    pub(crate) fn set(&self, metric: &Metric, labels: &[(&'static str, &str)], value: impl Into<Option<f64>>) {
        if let Some(value) = value.into() {
            self.gauge(metric, labels).set(value);
        }
    }

    /// Sets a counter to a total from the database.
    pub(crate) fn set_total(&self, metric: &Metric, labels: &[(&'static str, &str)], total: i64) {
        let total = u64::try_from(total).unwrap_or_default();
        self.counter(metric, labels).absolute(total);
    }

    /// Aggregates the observations of histograms, when that is due. Cheap when it is not.
    pub fn upkeep(&self) {
        let now = Instant::now();
        // Only one of concurrent callers does it.
        if let Ok(mut due) = self.0.upkeep_due.try_lock()
            && now >= *due
        {
            *due = now + UPKEEP;
            self.0.recorder.handle().run_upkeep();
        }
    }

    /// Records the errors and connections that the store has counted.
    pub fn record_database(&self, store: &Store) {
        for (error, count) in store.error_counts() {
            self.counter(&DATABASE_ERRORS, &[("error", error)]).absolute(count);
        }
        let (size, idle) = store.connections_now();
        for (state, count) in [("idle", idle), ("in_use", size - idle)] {
            self.set(&DATABASE_CONNECTIONS, &[("state", state)], count as f64);
        }
        let most = store.pool_options().get_max_connections();
        self.set(&DATABASE_CONNECTIONS_MAX, &[], f64::from(most));
    }

    /// Everything, as text.
    #[must_use]
    pub fn render(&self) -> String {
        self.0.recorder.handle().render()
    }
}

/// The value of a gauge that shows whether a condition holds.
pub(crate) fn one_if(holds: bool) -> f64 {
    u8::from(holds).into()
}

fn key(metric: &Metric, labels: &[(&'static str, &str)]) -> Key {
    debug_assert!(
        labels.iter().map(|(name, _)| *name).eq(metric.labels.iter().copied()),
        "{} has the labels {:?}",
        metric.name,
        metric.labels
    );
    let owned = labels
        .iter()
        .map(|(name, value)| Label::new(*name, (*value).to_owned()));
    Key::from_parts(metric.name, owned.collect::<Vec<_>>())
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
