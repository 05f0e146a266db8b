//! `tidegate status`

use std::{io::IsTerminal, process::ExitCode, time::Duration};

use chrono::Utc;
use clap::Args;
use humantime::parse_duration;
use serde_json::json;
use tidegate::internals::store::{EstimatorOverview, Gate, QueueOverview, StageLevel, SubmitterCount, WorkerOverview};

use super::{
    Connected, GlobalArgs, print_json,
    table::{or_dash, table, time},
};
use crate::logs::print_err;

const QUEUES: &str = "queue  stage  limit  waiting  held  backing off  drained/s 10s  1m  gate";
const STAGES: &str =
    "stage  calls/min  failed  p50  p99  timeouts/request  retries/request  backoff  breaker  W_retry  p_ok";
const TIMEOUTS: &str =
    "adaptive timeout  state  srtt  rttvar  k_margin  timeout  failure rate  target  calls/s  processes";

const SUBMITTERS: &str = "queue  submitter  requests  waiting  held  quota  oldest since";

/// Submitters shown at most.
const SUBMITTERS_MAX: i32 = 100;

#[derive(Debug, Args)]
pub(super) struct Status {
    /// Show whose requests are in the queues instead: those of the submitters that have the most
    #[arg(long)]
    submitters: bool,
    /// Only this queue
    #[arg(long, requires = "submitters")]
    queue: Option<String>,
    /// Show it again every so many seconds, until Ctrl-C
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2", value_parser = seconds)]
    watch: Option<Duration>,
}

/// A time from 0.1 s to an hour, as a number of seconds or with a unit, such as 500ms.
fn seconds(text: &str) -> Result<Duration, String> {
    let bare = text.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let duration = bare.map_or_else(|| parse_duration(text).map_err(|error| error.to_string()), Ok)?;
    let allowed = Duration::from_millis(100)..=Duration::from_secs(3600);
    allowed.contains(&duration).then_some(duration).ok_or_else(|| "it is 0.1 s to an hour".to_owned())
}

impl Status {
    pub(super) async fn run(self, global: GlobalArgs) -> anyhow::Result<ExitCode> {
        let connected = global.connect(1).await?;
        let shown = self.show(&connected).await?;
        match self.watch {
            None => Ok(shown),
            Some(pause) => tokio::select! {
                () = self.repeat(&connected, pause) => Ok(ExitCode::SUCCESS),
                interrupted = tokio::signal::ctrl_c() => Ok(interrupted.map(|()| ExitCode::SUCCESS)?),
            },
        }
    }

    /// Shows it again and again: who watches a fleet wants to see when a database answers again.
    async fn repeat(&self, connected: &Connected, pause: Duration) {
        loop {
            tokio::time::sleep(pause).await;
            if let Err(error) = self.show(connected).await {
                print_err(format_args!("{error:#}"));
            }
        }
    }

    async fn show(&self, connected: &Connected) -> anyhow::Result<ExitCode> {
        if self.submitters {
            let counts = connected.store.submitter_counts(self.queue.as_deref(), SUBMITTERS_MAX).await?;
            self.begin(connected);
            return submitters(connected, counts);
        }
        overview(connected, || self.begin(connected)).await
    }

    /// Before the lines of a picture, which are known by then: a terminal never shows half of one for long.
    fn begin(&self, connected: &Connected) {
        if self.watch.is_none() || connected.json {
            return;
        }
        if std::io::stdout().is_terminal() {
            // To the upper left, and what is below is erased.
            outln!("\u{1b}[H\u{1b}[2J{}", time(Utc::now()));
        } else {
            outln!("{}", time(Utc::now()));
        }
    }
}

fn submitters(connected: &Connected, counts: Vec<SubmitterCount>) -> anyhow::Result<ExitCode> {
    connected.print_rows(counts, "no request is in a queue", SUBMITTERS, submitter_row)
}

fn submitter_row(count: SubmitterCount) -> [String; 7] {
    [
        count.queue,
        or_dash(count.submitter),
        count.requests.to_string(),
        count.waiting.to_string(),
        count.held.to_string(),
        or_dash(count.high_water),
        time(count.oldest_at),
    ]
}

async fn overview(connected: &Connected, begin: impl FnOnce()) -> anyhow::Result<ExitCode> {
    let requests = connected.store.request_overview().await?;
    let queues = connected.store.queue_overview().await?;
    let workers = connected.store.worker_overview().await?;
    let gates = connected.store.gates(None).await?;
    let stages = connected.store.stage_levels().await?;
    let timeouts = connected.store.estimator_overview().await?;
    let unresolved = connected.store.unresolved_counts().await?;
    let quarantine = connected.store.quarantine_state().await?;
    let warnings = connected.store.configuration_warnings().await?;
    if connected.json {
        return print_json(&json!({
            "requests": requests, "queues": queues, "gates": gates, "stages": stages,
            "adaptive_timeouts": timeouts, "workers": workers, "unresolved": unresolved,
            "quarantine": quarantine, "warnings": warnings
        }));
    }

    begin();
    if let Some(quarantine) = quarantine {
        outln!("QUARANTINED: nothing is sent from this database until `tidegate adopt`: {}\n", quarantine.because);
    }
    let closed = gates.iter().filter(|gate| gate.state == "too_many_requests");
    let closed: Vec<_> = closed.map(closed_gate).collect();
    if !closed.is_empty() {
        outln!("{}\n", closed.join("\n"));
    }
    for warning in &warnings {
        outln!("{}: {}\n", warning.subject, warning.message);
    }
    let requests = requests.into_iter().map(|count| [count.kind, count.status, count.requests.to_string()]);
    outln!("{}\n", table("kind  status  requests", requests));
    for kind in unresolved.iter().filter(|kind| kind.unresolved > 0) {
        outln!("{}: {} requests may have been executed (`tidegate unresolved`)\n", kind.kind, kind.unresolved);
    }
    for queue in queues.iter().filter(|queue| !queue.unserved.is_empty()) {
        let kinds = queue.unserved.join(", ");
        outln!("queue {}: no live worker takes requests of {kinds}\n", queue.queue);
    }
    outln!("{}\n", table(QUEUES, queues.into_iter().map(queue_row)));
    outln!("{}\n", table(STAGES, stages.into_iter().map(stage_row)));
    if !timeouts.is_empty() {
        outln!("{}\n", table(TIMEOUTS, timeouts.iter().map(timeout_row)));
    }
    let workers = workers.iter().map(worker_row);
    outln!("{}", table("worker  queues  state  held  last seen", workers));
    if connected.location.is_embedded() {
        outln!("\ndatabase: {}", connected.location.url);
    }
    Ok(ExitCode::SUCCESS)
}

/// A closed gate: its cause, since when, and when it opens.
fn closed_gate(gate: &Gate) -> String {
    let (cause, until) = if gate.forced {
        ("by hand", "until it is released".to_owned())
    } else {
        ("by its marks", format!("opens at {}", gate.low_water))
    };
    let since = time(gate.changed_at);
    format!("GATE CLOSED: {}, {cause} since {since}, depth {}, {until}", gate.name, gate.depth)
}

/// The messages of a queue, and its drain rates.
fn queue_row(queue: QueueOverview) -> [String; 9] {
    let limit = match (queue.per_seconds, queue.max_concurrency) {
        _ if queue.paused => "paused".to_owned(),
        (Some(rate), _) => format!("{rate}/s"),
        (None, Some(limit)) => format!("{limit} at once"),
        (None, None) => "none".to_owned(),
    };
    let limit = queue.fair_by.map_or_else(|| limit.clone(), |whom| format!("{limit}, fair by {whom}"));
    [
        queue.queue,
        queue.stage,
        limit,
        queue.waiting.to_string(),
        queue.held.to_string(),
        queue.backing_off.to_string(),
        queue.per_second_10s.to_string(),
        queue.per_second_1m.to_string(),
        queue.gate,
    ]
}

fn percent(share: Option<f64>) -> String {
    or_dash(share.map(|share| format!("{:.1} %", share * 100.0)))
}

/// A latency, and its target if there is one.
fn p99(ms: Option<i32>, target: Option<i32>) -> String {
    let ms = or_dash(ms.map(|ms| format!("{ms} ms")));
    target.map_or_else(|| ms.clone(), |target| format!("{ms} (≤ {target} ms)"))
}

/// The service level of a stage in the last five minutes.
fn stage_row(stage: StageLevel) -> [String; 11] {
    let congested = if stage.congested { " × 2, congested" } else { "" };
    let each = |rate: Option<f64>| or_dash(rate.map(|rate| format!("{rate:.2}")));
    [
        format!("{}.{}", stage.kind, stage.stage),
        format!("{:.1}", stage.calls_per_minute),
        percent(stage.error_ratio),
        or_dash(stage.p50_ms.map(|ms| format!("{ms} ms"))),
        p99(stage.p99_ms, stage.slo_p99_ms),
        each(stage.timeout_rate),
        each(stage.retry_rate),
        format!("× {}{congested}", stage.stretch),
        stage.breaker,
        format!("{:.1} s", stage.w_retry_ms / 1000.0),
        percent(stage.p_ok),
    ]
}

/// The learned timeout of a stage.
fn timeout_row(estimator: &EstimatorOverview) -> [String; 10] {
    let ms = |ms: Option<f64>| or_dash(ms.map(|ms| format!("{ms:.1} ms")));
    [
        format!("{}.{}", estimator.kind, estimator.stage),
        estimator.state.replace('_', " "),
        ms(estimator.srtt_ms),
        ms(estimator.rttvar_ms),
        estimator.k_margin.to_string(),
        ms(Some(estimator.timeout_ms)),
        percent(estimator.failure_rate),
        percent(estimator.slo),
        or_dash(estimator.load_rps.map(|load| format!("{load:.1}"))),
        estimator.processes.to_string(),
    ]
}

/// A worker, and when it last renewed its row.
fn worker_row(worker: &WorkerOverview) -> [String; 5] {
    [
        worker.name.clone(),
        worker.queues.join(" "),
        worker.state().to_owned(),
        worker.held.to_string(),
        time(worker.last_seen_at),
    ]
}
