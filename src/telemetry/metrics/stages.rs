//! Metrics of each stage: its indicators, also under the names of their source document, its policy, its adaptive
//! timeout.

use super::{
    Metrics,
    catalogue::{
        ADAPTIVE_HIGH_LOAD, ADAPTIVE_K_MARGIN, ADAPTIVE_SRTT, ADAPTIVE_TIMEOUT, BREAKER_STATE, CALLS, HEDGES, Metric,
        POLICY_STRETCH, POLICY_TIMEOUT, RETRIES, SLI_CIRCUIT_OPEN_RATIO, SLI_DUP_DROP_RATE, SLI_ERROR_RATIO,
        SLI_LATENCY, SLI_RETRY_RATE, SLI_TIMEOUT_RATE, THREADS_CIRCUIT_OPEN_RATIO, THREADS_DEDUP_DROP_RATE,
        THREADS_HEDGE_COUNT, THREADS_RETRY_RATE, THREADS_TIMEOUT_RATE,
    },
};
use crate::store::{EstimatorOverview, StageLevel};

/// Sets the metrics of every stage.
pub(super) fn record(metrics: &Metrics, stages: &[StageLevel]) {
    for stage in stages {
        let of = [("kind", &*stage.kind), ("stage", &*stage.stage)];
        let set = |metric: &Metric, value: Option<f64>| {
            // An unknown value is left out: zero would look healthy.
            if let Some(value) = value {
                metrics.gauge(metric, &of).set(value);
            }
        };
        for (metric, alias, value) in [
            (&SLI_RETRY_RATE, &THREADS_RETRY_RATE, stage.retry_rate),
            (&SLI_TIMEOUT_RATE, &THREADS_TIMEOUT_RATE, stage.timeout_rate),
            (&SLI_DUP_DROP_RATE, &THREADS_DEDUP_DROP_RATE, stage.dup_drop_rate),
            (
                &SLI_CIRCUIT_OPEN_RATIO,
                &THREADS_CIRCUIT_OPEN_RATIO,
                Some(stage.open_ratio),
            ),
        ] {
            set(metric, value);
            set(alias, value);
        }
        set(&SLI_ERROR_RATIO, stage.error_ratio);
        for (quantile, ms) in [("0.5", stage.p50_ms), ("0.99", stage.p99_ms)] {
            if let Some(ms) = ms {
                let labels = [of[0], of[1], ("quantile", quantile)];
                metrics.gauge(&SLI_LATENCY, &labels).set(f64::from(ms) / 1000.0);
            }
        }

        let count = |count: i64| u64::try_from(count).unwrap_or_default();
        let failed = count(stage.failures - stage.timeouts);
        for (outcome, calls) in [
            ("answered", count(stage.calls - stage.failures)),
            ("failed", failed),
            ("timed_out", count(stage.timeouts)),
        ] {
            metrics
                .counter(&CALLS, &[of[0], of[1], ("outcome", outcome)])
                .absolute(calls);
        }
        metrics.counter(&RETRIES, &of).absolute(count(stage.retries));
        for metric in [&HEDGES, &THREADS_HEDGE_COUNT] {
            metrics.counter(metric, &of).absolute(count(stage.hedges));
        }

        set(&POLICY_STRETCH, Some(stage.stretch));
        set(&POLICY_TIMEOUT, Some(f64::from(stage.timeout_ms) / 1000.0));
        if stage.breaker != "none" {
            for state in ["closed", "half_open", "open"] {
                metrics
                    .gauge(&BREAKER_STATE, &[of[0], of[1], ("state", state)])
                    .set(f64::from(u8::from(stage.breaker == state)));
            }
        }
    }
}

/// Sets the metrics of every adaptive timeout.
pub(super) fn record_estimators(metrics: &Metrics, estimators: &[EstimatorOverview]) {
    for estimator in estimators {
        let of = [("kind", &*estimator.kind), ("stage", &*estimator.stage)];
        for (metric, value) in [
            (&ADAPTIVE_TIMEOUT, Some(estimator.timeout_ms / 1000.0)),
            (&ADAPTIVE_SRTT, estimator.srtt_ms.map(|ms| ms / 1000.0)),
            (&ADAPTIVE_K_MARGIN, Some(f64::from(estimator.k_margin))),
            (
                &ADAPTIVE_HIGH_LOAD,
                Some(f64::from(u8::from(estimator.state == "high_load"))),
            ),
        ] {
            if let Some(value) = value {
                metrics.gauge(metric, &of).set(value);
            }
        }
    }
}
