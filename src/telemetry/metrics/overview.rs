//! Metrics that are read from the database: queues, requests, ETAs, webhooks, workers, duties.
//!
//! They are read on demand, at most once a second for any number of scrapes, and during a fifth of the time at most:
//! with a million messages the views are slow. Each reading starts empty, so that a removed queue or limit disappears;
//! while the database is unavailable only that is reported.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::Mutex;

use super::{
    Metrics,
    catalogue::{
        DATABASE_UP, ETA_P90_HELD, ETA_P90_STATED, GATE_CLOSED, GATE_HIGH_WATER, GATE_LOW_WATER, MAINTENANCE_LAG,
        Metric, QUEUE_BACKING_OFF, QUEUE_CONCURRENCY_LIMIT, QUEUE_DEPTH, QUEUE_DRAIN_RATE, QUEUE_HELD,
        QUEUE_OLDEST_AGE, QUEUE_PAUSED, QUEUE_RATE_LIMIT, QUEUE_UNSERVED, QUEUE_WAITING, RECOVERED, REQUESTS,
        RESPONSES_EXPIRED, WEBHOOK_OLDEST_AGE, WEBHOOKS, WORKERS,
    },
    eta_quality, stages,
};
use crate::{
    error::StoreError,
    store::{QueueOverview, Store},
};

/// How old a reading may be.
const FRESH: Duration = Duration::from_secs(1);

/// How long a reading may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Reads these metrics.
#[derive(Debug)]
pub struct Overview {
    store: Store,
    /// The last reading, and until when it is used.
    last: Mutex<Option<(Arc<str>, Instant)>>,
}

impl Overview {
    /// Over this database.
    #[must_use]
    pub fn new(store: &Store) -> Self {
        Self {
            store: store.clone().with_time_limit(PATIENCE),
            last: Mutex::default(),
        }
    }

    /// The metrics, as text. Concurrent callers share one reading.
    pub async fn render(&self) -> Arc<str> {
        let mut last = self.last.lock().await;
        if let Some((text, until)) = last.as_ref()
            && Instant::now() < *until
        {
            return Arc::clone(text);
        }
        let began = Instant::now();
        let text = match tokio::time::timeout(PATIENCE, self.read()).await {
            Ok(Ok(text)) => text,
            outcome => {
                let reason = match outcome {
                    Ok(Err(error)) => error.to_string(),
                    _ => format!("no answer within {} s", PATIENCE.as_secs()),
                };
                tracing::debug!(error = reason, "failed to read the database's metrics");
                let metrics = Metrics::empty();
                metrics.gauge(&DATABASE_UP, &[]).set(0);
                metrics.render()
            }
        };
        let text = Arc::from(text);
        *last = Some((Arc::clone(&text), Instant::now() + FRESH.max(began.elapsed() * 4)));
        text
    }

    async fn read(&self) -> Result<String, StoreError> {
        let metrics = Metrics::empty();
        let set = |metric: &Metric, labels: &[(&'static str, &str)], value: f64| {
            metrics.gauge(metric, labels).set(value);
        };
        for count in self.store.request_overview().await? {
            let labels = [("kind", &*count.kind), ("status", &*count.status)];
            set(&REQUESTS, &labels, count.requests as f64);
        }
        for queue in self.store.queue_overview().await? {
            set_queue(&queue, set);
        }
        let mut workers = [("alive", 0.0), ("stopped", 0.0), ("lost", 0.0)];
        for worker in self.store.worker_overview().await? {
            let state = match (worker.alive, worker.stopped_at) {
                (true, _) => 0,
                (false, Some(_)) => 1,
                (false, None) => 2,
            };
            workers[state].1 += 1.0;
        }
        for (state, count) in workers {
            set(&WORKERS, &[("state", state)], count);
        }
        for duty in self.store.maintenance_overview().await? {
            set(&MAINTENANCE_LAG, &[("duty", &duty.duty)], duty.overdue_seconds);
        }
        let count = |metric: &Metric, labels: &[(&'static str, &str)], count: i64| {
            let count = u64::try_from(count).unwrap_or_default();
            metrics.counter(metric, labels).absolute(count);
        };
        for (figure, recovered) in self.store.recovered().await? {
            count(&RECOVERED, &[("what", &*figure)], recovered);
        }
        let webhooks = self.store.webhook_counts().await?;
        set(&WEBHOOKS, &[("state", "waiting")], webhooks.waiting as f64);
        set(&WEBHOOKS, &[("state", "under_way")], webhooks.under_way as f64);
        set(&WEBHOOKS, &[("state", "failed")], webhooks.failed as f64);
        set(&WEBHOOK_OLDEST_AGE, &[], webhooks.oldest_seconds);
        count(&RESPONSES_EXPIRED, &[], self.store.expired_responses().await?);
        let quality = self.store.eta_quality().await?;
        for of in &quality {
            count(&ETA_P90_STATED, &[("kind", &of.kind)], of.p90_stated);
            count(&ETA_P90_HELD, &[("kind", &of.kind)], of.p90_held);
        }
        stages::record(&metrics, &self.store.stage_levels().await?);
        stages::record_estimators(&metrics, &self.store.estimator_overview().await?);
        set(&DATABASE_UP, &[], 1.0);
        Ok(metrics.render() + &eta_quality::histogram(&quality))
    }
}

fn set_queue(queue: &QueueOverview, set: impl Fn(&Metric, &[(&'static str, &str)], f64)) {
    let name = ("queue", queue.queue.as_str());
    let truth = |holds: bool| f64::from(u8::from(holds));
    let figures = [
        (&QUEUE_DEPTH, Some(queue.depth as f64)),
        (&QUEUE_WAITING, Some(queue.waiting as f64)),
        (&QUEUE_HELD, Some(queue.held as f64)),
        (&QUEUE_BACKING_OFF, Some(queue.backing_off as f64)),
        (&QUEUE_OLDEST_AGE, Some(queue.oldest_seconds)),
        (&QUEUE_RATE_LIMIT, queue.per_seconds),
        (&QUEUE_CONCURRENCY_LIMIT, queue.max_concurrency.map(f64::from)),
        (&QUEUE_PAUSED, Some(truth(queue.paused))),
        (&GATE_CLOSED, Some(truth(queue.gate != "accepting"))),
        (&GATE_HIGH_WATER, Some(f64::from(queue.high_water))),
        (&GATE_LOW_WATER, Some(f64::from(queue.low_water))),
    ];
    for (metric, value) in figures {
        if let Some(value) = value {
            set(metric, &[name], value);
        }
    }
    for kind in &queue.unserved {
        set(&QUEUE_UNSERVED, &[name, ("kind", kind)], 1.0);
    }
    for (window, rate) in [
        ("10s", queue.per_second_10s),
        ("1m", queue.per_second_1m),
        ("5m", queue.per_second_5m),
    ] {
        set(&QUEUE_DRAIN_RATE, &[name, ("window", window)], rate);
    }
}
