//! Metrics of this process, for Prometheus or for a recorder of the program's own. [`catalogue`] lists them.
//!
//! Making a handle is a look-up by name and labels; counting with one is an atomic addition.

pub mod catalogue;

use std::{fmt, sync::Arc};

use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Recorder};

use self::catalogue::Metric;

/// The metadata that metrics-rs requires; no filter uses it.
const METADATA: Metadata<'static> = Metadata::new("tidegate", Level::INFO, None);

/// A recorder that is not the program's, so that several nodes in one process count separately.
pub trait OwnRecorder: Send + Sync {
    /// Registers what is counted.
    fn recorder(&self) -> &dyn Recorder;

    /// Aggregates the observations of histograms, when that is due. Cheap when it is not.
    fn upkeep(&self);
}

/// Counts, gauges and histograms of one node or worker. Clones count together.
///
/// By default they go to the recorder that the program has set with the crate `metrics`, if there is one.
#[derive(Clone, Default)]
pub struct Metrics {
    own: Option<Arc<dyn OwnRecorder>>,
}

impl Metrics {
    /// Those of this recorder.
    pub fn of(recorder: Arc<dyn OwnRecorder>) -> Self {
        Self { own: Some(recorder) }
    }

    fn record<T>(&self, register: impl FnOnce(&dyn Recorder) -> T) -> T {
        match &self.own {
            Some(own) => register(own.recorder()),
            None => metrics::with_recorder(register),
        }
    }

    /// A counter.
    pub fn counter(&self, metric: &Metric, labels: &[(&'static str, &str)]) -> Counter {
        self.record(|recorder| recorder.register_counter(&key(metric, labels), &METADATA))
    }

    /// A gauge.
    pub fn gauge(&self, metric: &Metric, labels: &[(&'static str, &str)]) -> Gauge {
        self.record(|recorder| recorder.register_gauge(&key(metric, labels), &METADATA))
    }

    /// Sets a gauge. One without a value is left out, because zero would look healthy.
    pub fn set(&self, metric: &Metric, labels: &[(&'static str, &str)], value: impl Into<Option<f64>>) {
        if let Some(value) = value.into() {
            self.gauge(metric, labels).set(value);
        }
    }

    /// Sets a counter to a total from the database.
    pub fn set_total(&self, metric: &Metric, labels: &[(&'static str, &str)], total: i64) {
        let total = u64::try_from(total).unwrap_or_default();
        self.counter(metric, labels).absolute(total);
    }

    /// A histogram; call [`upkeep`](Self::upkeep) from time to time.
    pub fn histogram(&self, metric: &Metric, labels: &[(&'static str, &str)]) -> Histogram {
        self.record(|recorder| recorder.register_histogram(&key(metric, labels), &METADATA))
    }

    /// Aggregates the observations of histograms, when that is due. Cheap when it is not.
    pub fn upkeep(&self) {
        if let Some(own) = &self.own {
            own.upkeep();
        }
    }
}

fn key(metric: &Metric, labels: &[(&'static str, &str)]) -> Key {
    debug_assert!(
        labels.iter().map(|(name, _)| *name).eq(metric.labels.iter().copied()),
        "{} has the labels {:?}",
        metric.name,
        metric.labels
    );
    let owned = labels.iter().map(|(name, value)| Label::new(*name, (*value).to_owned()));
    Key::from_parts(metric.name, owned.collect::<Vec<_>>())
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}
