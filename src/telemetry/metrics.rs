//! Metrics of this process, for Prometheus or for a recorder of the program's own. [`catalogue`] lists them.
//!
//! Making a handle is a look-up by name and labels; counting with one is an atomic addition.

pub mod catalogue;
#[cfg(feature = "server")]
mod eta_quality;
#[cfg(feature = "server")]
pub(crate) mod exporter;
#[cfg(feature = "server")]
pub mod overview;
#[cfg(feature = "server")]
mod per_kind;
#[cfg(feature = "server")]
mod stages;

use std::fmt;

use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata, Recorder};

use self::catalogue::Metric;
#[cfg(feature = "server")]
pub use self::per_kind::PerKind;

/// The metadata that metrics-rs requires; no filter uses it.
const METADATA: Metadata<'static> = Metadata::new("tidegate", Level::INFO, None);

/// Counts, gauges and histograms of one node or worker. Clones count together.
///
/// By default they go to the recorder that the program has set with the crate `metrics`, if there is one. Those of
/// `Metrics::new` (feature `server`) have a recorder of their own, so that several nodes in one process count separately.
#[derive(Clone, Default)]
pub struct Metrics {
    #[cfg(feature = "server")]
    exporter: Option<std::sync::Arc<exporter::Exporter>>,
}

impl Metrics {
    fn record<T>(&self, register: impl FnOnce(&dyn Recorder) -> T) -> T {
        #[cfg(feature = "server")]
        if let Some(exporter) = &self.exporter {
            return register(&*exporter.recorder);
        }
        metrics::with_recorder(register)
    }

    /// A counter.
    pub fn counter(&self, metric: &Metric, labels: &[(&'static str, &str)]) -> Counter {
        self.record(|recorder| recorder.register_counter(&key(metric, labels), &METADATA))
    }

    /// A gauge.
    pub fn gauge(&self, metric: &Metric, labels: &[(&'static str, &str)]) -> Gauge {
        self.record(|recorder| recorder.register_gauge(&key(metric, labels), &METADATA))
    }

    /// A histogram; call [`upkeep`](Self::upkeep) from time to time.
    pub fn histogram(&self, metric: &Metric, labels: &[(&'static str, &str)]) -> Histogram {
        self.record(|recorder| recorder.register_histogram(&key(metric, labels), &METADATA))
    }

    /// Aggregates the observations of histograms, when that is due. Cheap when it is not.
    pub fn upkeep(&self) {
        #[cfg(feature = "server")]
        if let Some(exporter) = &self.exporter {
            exporter.upkeep();
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

#[cfg(all(test, feature = "server"))]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::{Metrics, catalogue::WORKER_CLAIMED};

    #[test]
    fn metrics_go_to_the_recorder_of_the_program_unless_they_have_their_own() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let own = Metrics::new();

        metrics::with_local_recorder(&recorder, || {
            Metrics::default().counter(&WORKER_CLAIMED, &[("queue", "of the program")]).increment(3);
            own.counter(&WORKER_CLAIMED, &[("queue", "of its own")]).increment(4);
        });

        let (program, own) = (recorder.handle().render(), own.render());
        assert!(program.contains("{queue=\"of the program\"} 3") && !program.contains("of its own"), "{program}");
        assert!(own.contains("{queue=\"of its own\"} 4") && !own.contains("of the program"), "{own}");
    }
}
