//! Metrics with a recorder of their own, in the text format of Prometheus.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use metrics::{KeyName, Recorder};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusRecorder};

use super::{
    Metrics,
    catalogue::{ALL, BUILD_INFO, DATABASE_CONNECTIONS, DATABASE_CONNECTIONS_MAX, DATABASE_ERRORS, Form, Metric},
};
use crate::store::Store;

/// How often the observations of histograms are aggregated. Until then each takes memory.
const UPKEEP: Duration = Duration::from_secs(5);

pub(crate) struct Exporter {
    pub(super) recorder: Arc<PrometheusRecorder>,
    upkeep_due: Mutex<Instant>,
}

impl Exporter {
    /// A recorder that knows every metric and has no value.
    fn new() -> Self {
        let mut builder = PrometheusBuilder::new();
        for metric in ALL {
            if let Form::Histogram(buckets) = metric.form {
                let matcher = Matcher::Full(metric.name.to_owned());
                // Refused only without buckets.
                builder = builder.set_buckets_for_metric(matcher, buckets).unwrap_or_default();
            }
        }
        let recorder = Arc::new(builder.build_recorder());
        for metric in ALL {
            let name = KeyName::from_const_str(metric.name);
            match metric.form {
                Form::Counter => recorder.describe_counter(name, None, metric.help.into()),
                Form::Gauge => recorder.describe_gauge(name, None, metric.help.into()),
                Form::Histogram(_) => recorder.describe_histogram(name, None, metric.help.into()),
            }
        }
        Self { recorder, upkeep_due: Instant::now().into() }
    }

    pub(super) fn upkeep(&self) {
        let now = Instant::now();
        // Only one of concurrent callers does it.
        if let Ok(mut due) = self.upkeep_due.try_lock()
            && now >= *due
        {
            *due = now + UPKEEP;
            self.recorder.handle().run_upkeep();
        }
    }
}

impl Metrics {
    /// With a recorder of their own, from zero.
    #[must_use]
    pub fn new() -> Self {
        let metrics = Self::empty();
        metrics.set(&BUILD_INFO, &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
        metrics
    }

    /// With a recorder of their own, without any value.
    pub(crate) fn empty() -> Self {
        Self { exporter: Some(Arc::new(Exporter::new())) }
    }

    /// Makes their recorder that of the program: what other crates count with the crate `metrics` is rendered, too.
    /// False if the program has a recorder already, or these have none of their own.
    pub fn install(&self) -> bool {
        let recorder = self.exporter.as_ref().map(|exporter| Arc::clone(&exporter.recorder));
        recorder.is_some_and(|recorder| metrics::set_global_recorder(recorder).is_ok())
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

    /// Everything, as text; empty without a recorder of their own.
    #[must_use]
    pub fn render(&self) -> String {
        let exporter = self.exporter.as_ref();
        exporter.map_or_else(String::new, |exporter| exporter.recorder.handle().render())
    }
}

/// The value of a gauge that shows whether a condition holds.
pub(crate) fn one_if(holds: bool) -> f64 {
    u8::from(holds).into()
}
