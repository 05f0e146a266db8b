//! Metrics in the text format of Prometheus.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use metrics::{KeyName, Recorder};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusRecorder};
use tidegate::internals::{
    metrics::{
        Metrics, OwnRecorder,
        catalogue::{ALL, BUILD_INFO, DATABASE_CONNECTIONS, DATABASE_CONNECTIONS_MAX, DATABASE_ERRORS, Form},
    },
    store::Store,
};

/// How often the observations of histograms are aggregated. Until then each takes memory.
const UPKEEP: Duration = Duration::from_secs(5);

/// A recorder of a node's or worker's own, and its values as text. Clones share it.
#[derive(Clone)]
pub struct Exporter {
    recorder: Arc<Prometheus>,
}

impl Exporter {
    /// With every value at zero.
    #[must_use]
    pub fn new() -> Self {
        let exporter = Self::empty();
        exporter.metrics().set(&BUILD_INFO, &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
        exporter
    }

    /// It knows every metric and has no value.
    pub(crate) fn empty() -> Self {
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
        Self { recorder: Arc::new(Prometheus { recorder, upkeep_due: Instant::now().into() }) }
    }

    /// What counts here.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        Metrics::of(Arc::clone(&self.recorder) as _)
    }

    /// Makes its recorder that of the program: what other crates count with the crate `metrics` is rendered, too. False
    /// if the program has a recorder already.
    pub fn install(&self) -> bool {
        metrics::set_global_recorder(Arc::clone(&self.recorder.recorder)).is_ok()
    }

    /// Records the errors and connections that the store has counted.
    pub fn record_database(&self, store: &Store) {
        let metrics = self.metrics();
        for (error, count) in store.error_counts() {
            metrics.counter(&DATABASE_ERRORS, &[("error", error)]).absolute(count);
        }
        let (size, idle) = store.connections_now();
        for (state, count) in [("idle", idle), ("in_use", size - idle)] {
            metrics.set(&DATABASE_CONNECTIONS, &[("state", state)], count as f64);
        }
        let most = store.pool_options().get_max_connections();
        metrics.set(&DATABASE_CONNECTIONS_MAX, &[], f64::from(most));
    }

    /// Every value, as text.
    #[must_use]
    pub fn render(&self) -> String {
        self.recorder.recorder.handle().render()
    }
}

impl Default for Exporter {
    fn default() -> Self {
        Self::new()
    }
}

struct Prometheus {
    recorder: Arc<PrometheusRecorder>,
    upkeep_due: Mutex<Instant>,
}

impl OwnRecorder for Prometheus {
    fn recorder(&self) -> &dyn Recorder {
        &*self.recorder
    }

    fn upkeep(&self) {
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

/// The value of a gauge that shows whether a condition holds.
pub(crate) fn one_if(holds: bool) -> f64 {
    u8::from(holds).into()
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;
    use tidegate::internals::metrics::{Metrics, catalogue::WORKER_CLAIMED};

    use super::Exporter;

    #[test]
    fn metrics_go_to_the_recorder_of_the_program_unless_they_have_their_own() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let own = Exporter::new();

        metrics::with_local_recorder(&recorder, || {
            Metrics::default().counter(&WORKER_CLAIMED, &[("queue", "of the program")]).increment(3);
            own.metrics().counter(&WORKER_CLAIMED, &[("queue", "of its own")]).increment(4);
        });

        let (program, own) = (recorder.handle().render(), own.render());
        assert!(program.contains("{queue=\"of the program\"} 3") && !program.contains("of its own"), "{program}");
        assert!(own.contains("{queue=\"of its own\"} 4") && !own.contains("of the program"), "{own}");
    }
}
