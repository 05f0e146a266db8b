//! Metrics of each stage: its indicators, also under the names of their source document, its policy, its adaptive
//! timeout.

use tidegate::internals::{
    metrics::{Metrics, catalogue::*},
    store::{EstimatorOverview, StageLevel},
};

use super::exporter::one_if;

fn seconds(ms: i32) -> f64 {
    f64::from(ms) / 1000.0
}

/// Sets the metrics of every stage.
pub(super) fn record(metrics: &Metrics, stages: &[StageLevel]) {
    for stage in stages {
        let of = [("kind", &*stage.kind), ("stage", &*stage.stage)];
        let of_both = |name, value| [of[0], of[1], (name, value)];
        let open_ratio = Some(stage.open_ratio);
        for (metric, alias, value) in [
            (&SLI_RETRY_RATE, &THREADS_RETRY_RATE, stage.retry_rate),
            (&SLI_TIMEOUT_RATE, &THREADS_TIMEOUT_RATE, stage.timeout_rate),
            (&SLI_DUP_DROP_RATE, &THREADS_DEDUP_DROP_RATE, stage.dup_drop_rate),
            (&SLI_CIRCUIT_OPEN_RATIO, &THREADS_CIRCUIT_OPEN_RATIO, open_ratio),
        ] {
            metrics.set(metric, &of, value);
            metrics.set(alias, &of, value);
        }
        metrics.set(&SLI_ERROR_RATIO, &of, stage.error_ratio);
        for (quantile, ms) in [("0.5", stage.p50_ms), ("0.99", stage.p99_ms)] {
            metrics.set(&SLI_LATENCY, &of_both("quantile", quantile), ms.map(seconds));
        }
        metrics.set(&SLI_LATENCY_TARGET, &of, stage.slo_p99_ms.map(seconds));

        for (outcome, calls) in [
            ("answered", stage.calls - stage.failures),
            ("failed", stage.failures - stage.timeouts),
            ("timed_out", stage.timeouts),
        ] {
            metrics.set_total(&CALLS, &of_both("outcome", outcome), calls);
        }
        metrics.set_total(&RETRIES, &of, stage.retries);
        metrics.set_total(&HEDGES, &of, stage.hedges);
        metrics.set_total(&THREADS_HEDGE_COUNT, &of, stage.hedges);

        metrics.set(&POLICY_STRETCH, &of, stage.stretch);
        metrics.set(&POLICY_TIMEOUT, &of, seconds(stage.timeout_ms));
        if stage.breaker != "none" {
            for state in ["closed", "half_open", "open"] {
                let is_in_it = one_if(stage.breaker == state);
                metrics.set(&BREAKER_STATE, &of_both("state", state), is_in_it);
            }
        }
    }
}

/// Sets the metrics of every adaptive timeout.
pub(super) fn record_estimators(metrics: &Metrics, estimators: &[EstimatorOverview]) {
    for estimator in estimators {
        let of = [("kind", &*estimator.kind), ("stage", &*estimator.stage)];
        metrics.set(&ADAPTIVE_TIMEOUT, &of, estimator.timeout_ms / 1000.0);
        metrics.set(&ADAPTIVE_SRTT, &of, estimator.srtt_ms.map(|ms| ms / 1000.0));
        metrics.set(&ADAPTIVE_K_MARGIN, &of, f64::from(estimator.k_margin));
        metrics.set(&ADAPTIVE_HIGH_LOAD, &of, one_if(estimator.state == "high_load"));
    }
}
