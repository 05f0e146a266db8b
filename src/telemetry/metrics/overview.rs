//! What the database knows of queues, requests, predictions, webhooks, workers and duties.
//!
//! Read when somebody asks, at most once a second however many ask, and no more than a fifth of the time: at a million
//! messages the views take a while. Each reading stands alone, so that a queue that is gone, or a limit that was taken
//! away, does not go on being reported; while the database is away nothing but that is.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::Mutex;

use super::{
    Metrics,
    catalogue::{
        DATABASE_UP, GATE_CLOSED, GATE_HIGH_WATER, GATE_LOW_WATER, MAINTENANCE_LAG, Metric, QUEUE_BACKING_OFF,
        QUEUE_CONCURRENCY_LIMIT, QUEUE_DEPTH, QUEUE_DRAIN_RATE, QUEUE_HELD, QUEUE_OLDEST_AGE, QUEUE_PAUSED,
        QUEUE_RATE_LIMIT, QUEUE_UNSERVED, QUEUE_WAITING, RECOVERED, REQUESTS, RESPONSES_EXPIRED, WEBHOOK_OLDEST_AGE,
        WEBHOOKS, WORKERS,
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

/// Reads the database's figures.
#[derive(Debug)]
pub struct Overview {
    store: Store,
    last: Mutex<Option<Reading>>,
}

#[derive(Debug)]
struct Reading {
    text: Arc<str>,
    until: Instant,
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

    /// The figures, as text. Whoever asks while they are being read waits for the same reading.
    pub async fn render(&self) -> Arc<str> {
        let mut last = self.last.lock().await;
        if let Some(reading) = last.as_ref()
            && Instant::now() < reading.until
        {
            return Arc::clone(&reading.text);
        }
        let began = Instant::now();
        let text = match tokio::time::timeout(PATIENCE, self.read()).await {
            Ok(Ok(text)) => text,
            outcome => {
                let why = match outcome {
                    Ok(Err(error)) => error.to_string(),
                    _ => format!("no answer within {} s", PATIENCE.as_secs()),
                };
                tracing::debug!(error = why, "cannot read the database's figures");
                let metrics = Metrics::empty();
                metrics.gauge(&DATABASE_UP, &[]).set(0);
                metrics.render()
            }
        };
        let text = Arc::from(text);
        *last = Some(Reading {
            text: Arc::clone(&text),
            until: Instant::now() + FRESH.max(began.elapsed() * 4),
        });
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
        for (what, count) in self.store.recovered().await? {
            let count = u64::try_from(count).unwrap_or_default();
            metrics.counter(&RECOVERED, &[("what", &*what)]).absolute(count);
        }
        let webhooks = self.store.webhook_counts().await?;
        for (state, count) in [
            ("waiting", webhooks.waiting),
            ("under_way", webhooks.under_way),
            ("failed", webhooks.failed),
        ] {
            set(&WEBHOOKS, &[("state", state)], count as f64);
        }
        set(&WEBHOOK_OLDEST_AGE, &[], webhooks.oldest_seconds);
        let expired = self.store.expired_responses().await?;
        let expired = u64::try_from(expired).unwrap_or_default();
        metrics.counter(&RESPONSES_EXPIRED, &[]).absolute(expired);
        let quality = self.store.eta_quality().await?;
        eta_quality::note(&metrics, &quality);
        stages::note(&metrics, &self.store.stage_levels().await?);
        stages::note_estimators(&metrics, &self.store.estimator_overview().await?);
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
