//! `tidegate get`

use std::process::ExitCode;

use anyhow::Context;
use chrono::{DateTime, Utc};
use serde::Serialize;
use tidegate::{
    internals::store::{Eta, Outlook},
    request::{Executed, JsonText, RequestError, RequestId, Status},
};

use super::{
    GlobalArgs,
    table::{plain, time},
};

pub(super) async fn run(global: GlobalArgs, ids: &[RequestId]) -> anyhow::Result<ExitCode> {
    let connected = global.connect(1).await?;
    let found = connected.store.outlooks(ids).await?;
    let found = ids.iter().zip(found);
    let found = found.map(|(id, outlook)| outlook.with_context(|| format!("there is no request {id}")));
    let outlooks = found.collect::<anyhow::Result<Vec<_>>>()?;
    let etas: Vec<_> = outlooks.iter().filter_map(|outlook| outlook.eta).collect();
    let seconds = Eta::last(&etas).map_or(0, |last| last.retry_after.as_secs());
    if let [outlook] = &*outlooks {
        return connected.print(&Shown::of(outlook), |_| print(outlook, ""));
    }
    let requests = outlooks.iter().map(Shown::of).collect();
    let figures = Several { requests, retry_after_seconds: seconds };
    connected.print(&figures, |_| {
        for outlook in &outlooks {
            print(outlook, &format!("{}: ", outlook.id));
        }
        match outlooks.iter().filter(|outlook| !outlook.status.is_terminal()).count() {
            0 => outln!("all have ended"),
            live => outln!("{live} of {} are under way; ask again in {seconds} s", outlooks.len()),
        }
    })
}

/// Several requests, as JSON.
#[derive(Serialize)]
struct Several<'a> {
    requests: Vec<Shown<'a>>,
    retry_after_seconds: u64,
}

/// A request, as JSON.
#[derive(Serialize)]
struct Shown<'a> {
    job_id: RequestId,
    kind: &'a str,
    state: Status,
    place: &'a str,
    queue: Option<&'a str>,
    position: Option<i64>,
    elapsed_seconds: Option<u64>,
    retry_after_seconds: u64,
    submitted_at: DateTime<Utc>,
    finished_at: Option<DateTime<Utc>>,
    result: Option<&'a JsonText>,
    error: Option<&'a RequestError>,
    last_error: Option<&'a RequestError>,
    executed: Option<Executed>,
    redriven_as: Option<RequestId>,
}

impl<'a> Shown<'a> {
    fn of(outlook: &'a Outlook) -> Self {
        Self {
            job_id: outlook.id,
            kind: &outlook.kind,
            state: outlook.status,
            place: &outlook.place,
            queue: outlook.queue.as_deref(),
            position: outlook.position,
            elapsed_seconds: (!outlook.status.is_terminal()).then_some(outlook.elapsed.as_secs()),
            retry_after_seconds: seconds(outlook),
            submitted_at: outlook.submitted_at,
            finished_at: outlook.finished_at,
            result: outlook.response.as_ref(),
            error: outlook.error.as_ref(),
            last_error: outlook.last_error.as_ref(),
            executed: outlook.executed,
            redriven_as: outlook.redriven_as,
        }
    }
}

/// When to ask for a request again; 0: it has ended.
fn seconds(outlook: &Outlook) -> u64 {
    outlook.eta.map_or(0, |eta| eta.retry_after.as_secs())
}

/// Prints a request, with these words before its first line.
fn print(outlook: &Outlook, before: &str) {
    let mut line = format!("{before}{} is {}", outlook.kind, outlook.status);
    if !outlook.status.is_terminal() {
        line += &format!(" ({})", outlook.place);
        if let (Some(position), Some(queue)) = (outlook.position, &outlook.queue) {
            line += &format!(": position {position} in {queue}");
        }
        line += &format!("; ask again in {} s", seconds(outlook));
    }
    if let Some(finished_at) = outlook.finished_at {
        let took = (finished_at - outlook.submitted_at).to_std().unwrap_or_default();
        line += &format!(" since {}, {:.1} s after its submission", time(finished_at), took.as_secs_f64());
    }
    if let Some(executed) = outlook.executed.filter(|_| outlook.status != Status::Completed) {
        line += &format!("; executed: {executed}");
    }
    outln!("{line}");
    let error = outlook.error.as_ref().filter(|_| outlook.status != Status::Completed);
    for (before, error) in [("", error), ("the last attempt: ", outlook.last_error.as_ref())] {
        if let Some(error) = error {
            outln!("{before}{}: {}", plain(&error.code), plain(&error.message));
        }
    }
    if let Some(redriven_as) = outlook.redriven_as {
        outln!("submitted again as {redriven_as}");
    }
    if let Some(response) = &outlook.response {
        outln!("{response}");
    }
}
