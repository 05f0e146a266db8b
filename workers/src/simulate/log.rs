//! An append-only record of events, one line of JSON each.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use chrono::{SecondsFormat, Utc};
use serde::Serialize;
use tidegate::request::RequestId;
use tokio::time::Instant;

use super::SimulateError;

#[derive(Serialize)]
struct Line<'a> {
    at: String,
    /// Microseconds since the downstream started, on the clock of its limits.
    us: u128,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<RequestId>,
    kind: &'a str,
    event: &'a str,
}

/// Writes each line at once, so that it has the events of a process that is killed. Without a file it writes nothing.
#[derive(Debug)]
pub(super) struct EventLog {
    file: Option<Mutex<File>>,
    started: Instant,
    failed: AtomicBool,
}

impl EventLog {
    pub(super) fn open(path: Option<&Path>) -> Result<Self, SimulateError> {
        let open = |path: &Path| {
            let file = OpenOptions::new().append(true).create(true).open(path);
            file.map(Mutex::new).map_err(|error| SimulateError::Log {
                path: path.to_owned(),
                error,
            })
        };
        Ok(Self {
            file: path.map(open).transpose()?,
            started: Instant::now(),
            failed: AtomicBool::new(false),
        })
    }

    pub(super) fn write(&self, request_id: Option<RequestId>, kind: &str, event: &str) {
        let Some(file) = &self.file else { return };
        let line = Line {
            at: Utc::now().to_rfc3339_opts(SecondsFormat::Micros, true),
            us: self.started.elapsed().as_micros(),
            request_id,
            kind,
            event,
        };
        let written = serde_json::to_vec(&line)
            .map_err(std::io::Error::from)
            .and_then(|mut line| {
                line.push(b'\n');
                file.lock().unwrap_or_else(PoisonError::into_inner).write_all(&line)
            });
        if let Err(error) = written
            && !self.failed.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(%error, "the event log is incomplete from here on");
        }
    }
}
