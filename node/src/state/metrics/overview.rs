//! Metrics that are read from the database: queues, requests, ETAs, webhooks, workers, duties.
//!
//! They are read on demand, at most once a second for any number of scrapes, and during a fifth of the time at most:
//! with a million messages the views are slow. Each reading starts empty, so that a removed queue or limit disappears;
//! while the database is unavailable only that is reported.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tidegate::internals::{
    error::StoreError,
    metrics::{Metrics, catalogue::*},
    store::{QueueOverview, Store},
};
use tokio::sync::Mutex;

use super::{
    eta_quality,
    exporter::{Exporter, one_if},
    stages,
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
        Self { store: store.clone().with_time_limit(PATIENCE), last: Mutex::default() }
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
        let read = tokio::time::timeout(PATIENCE, self.read());
        let read = read.await.unwrap_or_else(|_| Err(StoreError::Unavailable("no answer in time".to_owned())));
        let text = read.unwrap_or_else(|error| {
            tracing::debug!(%error, "failed to read the database's metrics");
            let exporter = Exporter::empty();
            exporter.metrics().set(&DATABASE_UP, &[], 0.0);
            exporter.render()
        });
        let text = Arc::from(text);
        *last = Some((Arc::clone(&text), Instant::now() + FRESH.max(began.elapsed() * 4)));
        text
    }

    async fn read(&self) -> Result<String, StoreError> {
        let exporter = Exporter::empty();
        let metrics = exporter.metrics();
        for count in self.store.request_overview().await? {
            let labels = [("kind", &*count.kind), ("status", &*count.status)];
            metrics.set(&REQUESTS, &labels, count.requests as f64);
        }
        for queue in self.store.queue_overview().await? {
            set_queue(&metrics, &queue);
        }
        for fair in self.store.fair_overview().await? {
            let labels = [("queue", &*fair.queue)];
            metrics.set(&FAIR_ACTIVE_KEYS, &labels, fair.active_keys as f64);
            metrics.set(&FAIR_IDLE_TURNS, &labels, fair.idle_turns as f64);
            metrics.set(&FAIR_ARRIVALS, &labels, fair.arrivals as f64);
        }
        for (kind, replays) in self.store.replay_counts().await? {
            metrics.set_total(&REPLAYS, &[("kind", &*kind)], replays);
        }
        let workers = self.store.worker_overview().await?;
        for state in ["alive", "stopped", "lost"] {
            let count = workers.iter().filter(|worker| worker.state() == state).count();
            metrics.set(&WORKERS, &[("state", state)], count as f64);
        }
        for duty in self.store.maintenance_overview().await? {
            let labels = [("duty", &*duty.duty)];
            metrics.set(&MAINTENANCE_LAG, &labels, duty.overdue_seconds);
            metrics.set(&MAINTENANCE_PASSED_OVER, &labels, duty.passed_over as f64);
        }
        for (figure, recovered) in self.store.recovered().await? {
            metrics.set_total(&RECOVERED, &[("what", &*figure)], recovered);
        }
        for unresolved in self.store.unresolved_counts().await? {
            let labels = [("kind", &*unresolved.kind)];
            metrics.set(&UNRESOLVED, &labels, unresolved.unresolved as f64);
            metrics.set(&UNRESOLVED_OLDEST_AGE, &labels, unresolved.oldest_seconds);
            metrics.set(&CONTRADICTED, &labels, unresolved.contradicted as f64);
        }
        let webhooks = self.store.webhook_counts().await?;
        for (state, count) in
            [("waiting", webhooks.waiting), ("under_way", webhooks.under_way), ("failed", webhooks.failed)]
        {
            metrics.set(&WEBHOOKS, &[("state", state)], count as f64);
        }
        metrics.set(&WEBHOOK_OLDEST_AGE, &[], webhooks.oldest_seconds);
        metrics.set_total(&RESPONSES_EXPIRED, &[], self.store.expired_responses().await?);
        let quality = self.store.eta_quality().await?;
        for of in &quality {
            metrics.set_total(&ETA_P90_STATED, &[("kind", &of.kind)], of.p90_stated);
            metrics.set_total(&ETA_P90_HELD, &[("kind", &of.kind)], of.p90_held);
        }
        stages::record(&metrics, &self.store.stage_levels().await?);
        stages::record_estimators(&metrics, &self.store.estimator_overview().await?);
        metrics.set(&DATABASE_UP, &[], 1.0);
        Ok(exporter.render() + &eta_quality::histogram(&quality))
    }
}

fn set_queue(metrics: &Metrics, queue: &QueueOverview) {
    let name = ("queue", queue.queue.as_str());
    metrics.set(&QUEUE_DEPTH, &[name], queue.depth as f64);
    metrics.set(&QUEUE_WAITING, &[name], queue.waiting as f64);
    metrics.set(&QUEUE_HELD, &[name], queue.held as f64);
    metrics.set(&QUEUE_BACKING_OFF, &[name], queue.backing_off as f64);
    metrics.set(&QUEUE_OLDEST_AGE, &[name], queue.oldest_seconds);
    metrics.set(&QUEUE_RATE_LIMIT, &[name], queue.per_seconds);
    metrics.set(&QUEUE_CONCURRENCY_LIMIT, &[name], queue.max_concurrency.map(f64::from));
    metrics.set(&QUEUE_PAUSED, &[name], one_if(queue.paused));
    metrics.set(&GATE_CLOSED, &[name], one_if(queue.gate != "accepting"));
    metrics.set(&GATE_HIGH_WATER, &[name], f64::from(queue.high_water));
    metrics.set(&GATE_LOW_WATER, &[name], f64::from(queue.low_water));
    for kind in &queue.unserved {
        metrics.set(&QUEUE_UNSERVED, &[name, ("kind", kind)], 1.0);
    }
    for (window, rate) in [("10s", queue.per_second_10s), ("1m", queue.per_second_1m), ("5m", queue.per_second_5m)] {
        metrics.set(&QUEUE_DRAIN_RATE, &[name, ("window", window)], rate);
    }
}
