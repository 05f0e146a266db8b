//! An append-only record of what happened, one line of JSON an event.

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
    /// Microseconds since the downstream started, on the clock that its limits are judged by.
    us: u128,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<RequestId>,
    kind: &'a str,
    event: &'a str,
}

/// Writes each line at once, so that a killed process has logged what it did.
#[derive(Debug)]
pub(super) struct EventLog {
    file: Mutex<File>,
    started: Instant,
    failed: AtomicBool,
}

impl EventLog {
    pub(super) fn open(path: &Path) -> Result<Self, SimulateError> {
        let file = OpenOptions::new().append(true).create(true).open(path);
        Ok(Self {
            file: Mutex::new(file.map_err(|error| SimulateError::Log {
                path: path.to_owned(),
                error,
            })?),
            started: Instant::now(),
            failed: AtomicBool::new(false),
        })
    }

    pub(super) fn write(&self, request_id: Option<RequestId>, kind: &str, event: &str) {
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
                let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
                file.write_all(&line)
            });
        if let Err(error) = written
            && !self.failed.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(%error, "the event log is incomplete from here on");
        }
    }
}
