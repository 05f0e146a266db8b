//! What a simulated downstream records: its counts, and a log of events with one line of JSON each.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    path::Path,
    sync::{Mutex, MutexGuard, Once},
};

use chrono::{SecondsFormat, Utc};
use serde::{Deserialize, Serialize};
use tidegate::request::RequestId;
use tokio::time::Instant;

use tidegate::internals::lock::lock;

use super::SimulateError;

/// The counts of a simulated downstream since it started.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Stats {
    /// Readiness checks.
    pub checks: u64,
    /// Checks answered with "not yet".
    pub checks_not_yet: u64,
    /// Checks answered with "never".
    pub checks_failed: u64,
    /// Checks beyond the concurrency limit, refused.
    pub concurrency_violations: u64,
    /// Sends, of all outcomes.
    pub sends: u64,
    /// Requests taken: effects, each request's once.
    pub taken: u64,
    /// Sends of a request that was taken before; they have no further effect.
    pub duplicates: u64,
    /// Sends refused permanently.
    pub rejected: u64,
    /// Sends answered with a server error.
    pub send_errors: u64,
    /// Sends never answered.
    pub dropped: u64,
    /// Sends beyond the rate limit, refused.
    pub rate_violations: u64,
    /// Receipts that were asked for.
    pub receipts_asked: u64,
    /// Receipts that were found.
    pub receipts_found: u64,
    /// Requests that will never be answered.
    pub silent: u64,
    /// Responses, shares and verdicts that came due; a response within a receipt is none of them.
    pub responses: u64,
    /// Responses that the relay took.
    pub responses_delivered: u64,
    /// Of these, those that came before the relay had stored the receipt.
    pub responses_early: u64,
    /// Of these, those that found their request ended.
    pub responses_late: u64,
    /// Responses that were given up: refused by the relay, or not taken within a minute.
    pub responses_lost: u64,
    /// The most sends, refused ones included, in any sliding second. Zero when nothing is remembered.
    pub max_sends_in_a_second: u64,
    /// The most checks, refused ones included, at any one time. Zero when nothing is remembered.
    pub max_checks_at_once: u64,
}

/// The counts and the log, which calls and deliveries share.
pub(super) struct Record {
    stats: Mutex<Stats>,
    log: Option<Mutex<File>>,
    started: Instant,
    log_failed: Once,
}

#[derive(Serialize)]
struct Line<'a> {
    at: String,
    /// Microseconds since the downstream started, on the clock of its limits.
    us: u128,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<RequestId>,
    kind: &'a str,
    event: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
}

impl Record {
    /// Zero counts, and a log if it has a path.
    pub(super) fn open(log: Option<&Path>) -> Result<Self, SimulateError> {
        let open = |path: &Path| {
            let file = OpenOptions::new().append(true).create(true).open(path);
            file.map(Mutex::new).map_err(|error| SimulateError::Log { path: path.to_owned(), error })
        };
        Ok(Self {
            stats: Mutex::default(),
            log: log.map(open).transpose()?,
            started: Instant::now(),
            log_failed: Once::new(),
        })
    }

    pub(super) fn stats(&self) -> MutexGuard<'_, Stats> {
        lock(&self.stats)
    }

    /// Counts an event and logs it, with `count` as its change of the counts. The log has the line before this returns,
    /// so it is complete when the process is killed.
    pub(super) fn note(
        &self,
        id: impl Into<Option<RequestId>>,
        kind: &str,
        event: &str,
        count: impl FnOnce(&mut Stats),
    ) {
        self.note_under(id, kind, event, None, count);
    }

    /// As [`Record::note`], with a key.
    pub(super) fn note_under(
        &self,
        id: impl Into<Option<RequestId>>,
        kind: &str,
        event: &str,
        key: Option<&str>,
        count: impl FnOnce(&mut Stats),
    ) {
        count(&mut self.stats());
        let Some(log) = &self.log else { return };
        let line = Line {
            at: Utc::now().to_rfc3339_opts(SecondsFormat::Micros, true),
            us: self.started.elapsed().as_micros(),
            request_id: id.into(),
            kind,
            event,
            key,
        };
        let written = serde_json::to_vec(&line).map_err(std::io::Error::from).and_then(|mut line| {
            line.push(b'\n');
            lock(log).write_all(&line)
        });
        if let Err(error) = written {
            let warn = || tracing::warn!(%error, "the event log is incomplete from here on");
            self.log_failed.call_once(warn);
        }
    }
}
