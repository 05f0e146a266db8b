//! The demo's progress: redrawn in place on a terminal, a line at intervals elsewhere.

use std::{
    io::{IsTerminal, Write, stdout},
    time::Duration,
};

use tidegate::{
    internals::store::{QueueOverview, RequestCount, Store},
    request::Status,
};
use tokio::time::Instant;

use super::callers::{Answer, Callers};
use crate::cli::table::table;

pub(super) struct Picture {
    live: bool,
    begun: Instant,
    drawn_lines: usize,
    drawn_at: Option<Instant>,
    events: Vec<String>,
}

impl Picture {
    pub(super) fn new() -> Self {
        Self { live: stdout().is_terminal(), begun: Instant::now(), drawn_lines: 0, drawn_at: None, events: Vec::new() }
    }

    /// The pause before the next picture.
    pub(super) fn period(&self) -> Duration {
        Duration::from_millis(if self.live { 250 } else { 500 })
    }

    /// Shows an event, which stays in view.
    pub(super) fn event(&mut self, event: &str) {
        let line = format!("{:>5.1} s  {event}", self.begun.elapsed().as_secs_f64());
        if self.live {
            self.events.push(line);
        } else {
            outln!("{line}");
        }
    }

    pub(super) async fn draw(&mut self, store: &Store, callers: &Callers) -> anyhow::Result<()> {
        let due = self.drawn_at.is_none_or(|at| at.elapsed() >= Duration::from_secs(2));
        if !self.live && !due && !callers.all_answered() {
            return Ok(());
        }
        self.drawn_at = Some(Instant::now());
        let requests = store.request_overview().await?;
        let queues = store.queue_overview().await?;
        if self.live {
            return self.redraw(&requests, &queues, callers);
        }
        self.line(&requests, &queues, callers);
        Ok(())
    }

    fn line(&self, requests: &[RequestCount], queues: &[QueueOverview], callers: &Callers) {
        let mut line = format!("{:>5.1} s ", self.begun.elapsed().as_secs_f64());
        for (status, count) in by_status(requests) {
            line += &format!(" {status} {count}");
        }
        line += " |";
        for queue in queues {
            line += &format!(" {} waiting {} held {}", queue.queue, queue.waiting, queue.held);
        }
        outln!("{line} | {}", estimates(&callers.results().answers));
    }

    fn redraw(&mut self, requests: &[RequestCount], queues: &[QueueOverview], callers: &Callers) -> anyhow::Result<()> {
        let mut text = format!(
            "{:>5.1} s   {} of {} answered   {}\n\n",
            self.begun.elapsed().as_secs_f64(),
            callers.answered(),
            callers.expected,
            estimates(&callers.results().answers)
        );
        let rows = by_status(requests).map(|(status, count)| [status.to_string(), bar(count), count.to_string()]);
        text += &format!("{}\n\n", table("status    requests", rows));
        let rows = queues.iter().map(|queue| {
            [
                queue.queue.clone(),
                bar(queue.waiting),
                queue.waiting.to_string(),
                queue.held.to_string(),
                queue.per_second_10s.to_string(),
                queue.gate.clone(),
            ]
        });
        let header = "queue    waiting  held  drained/s  gate";
        text += &format!("{}\n\n", table(header, rows));
        for event in &self.events {
            text += &format!("{event}\n");
        }

        let mut out = stdout().lock();
        if self.drawn_lines > 0 {
            // Up to the first line of the last picture, and clear from there.
            write!(out, "\x1b[{}A\x1b[J", self.drawn_lines)?;
        }
        write!(out, "{text}")?;
        out.flush()?;
        self.drawn_lines = text.lines().count();
        Ok(())
    }
}

/// Counts by status over all kinds, in the order of the statuses.
fn by_status(requests: &[RequestCount]) -> impl Iterator<Item = (Status, i64)> {
    let count_of = |status: Status| {
        let counts = requests.iter().filter(move |count| count.status == status.as_str());
        (status, counts.map(|count| count.requests).sum())
    };
    Status::ALL.iter().copied().map(count_of).filter(|(_, count)| *count > 0)
}

fn bar(count: i64) -> String {
    let length = usize::try_from(count / 8).unwrap_or_default().min(50);
    format!("{:<50}", "▇".repeat(length))
}

/// The mean predicted and actual times of the callers with an answer.
pub(super) fn estimates(answers: &[Answer]) -> String {
    if answers.is_empty() {
        return "no answers yet".to_owned();
    }
    let count = u32::try_from(answers.len()).unwrap_or(u32::MAX);
    let mean = |of: fn(&Answer) -> Duration| (answers.iter().map(of).sum::<Duration>() / count).as_secs_f64();
    let polls: u32 = answers.iter().map(|answer| answer.polls).sum();
    format!(
        "predicted {:.1} s, took {:.1} s, {:.1} polls each",
        mean(|answer| answer.predicted),
        mean(|answer| answer.actual),
        f64::from(polls) / f64::from(count)
    )
}
