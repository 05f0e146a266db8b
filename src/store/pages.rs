//! What the pages for operators read, and their sessions.

use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::FromRow;
use uuid::Uuid;

use super::{Gate, QueueOverview, Store, columns::milliseconds};
use crate::{
    error::Result,
    request::{RequestId, Status},
};

/// The statements of this module.
const SQL: &str = include_str!("../../sql/queries/pages.sql");

/// A request without its payload and response.
#[derive(Debug, Clone, FromRow)]
pub struct RequestDetail {
    /// The request.
    pub id: RequestId,
    /// Its kind.
    pub kind: String,
    /// Its flow.
    pub flow: String,
    /// Its status.
    pub status: Status,
    /// The cause of its last transition.
    pub cause: String,
    /// Its submitter.
    pub submitter: Option<String>,
    /// The queue it is in.
    pub queue: Option<String>,
    /// The downstream's name for it.
    pub reference: Option<String>,
    /// The worker that claimed it last.
    pub worker: Option<String>,
    /// Checks begun.
    pub readiness_attempt: i32,
    /// Sends begun.
    pub tx_attempt: i32,
    /// Of these, sends that certainly did not leave.
    pub tx_unsent: i32,
    /// Shares that complete it.
    pub response_threshold: i32,
    /// Shares that have arrived.
    pub shares: i64,
    /// When it was submitted.
    pub submitted_at: DateTime<Utc>,
    /// When it ends if it has no receipt by then.
    pub deadline_at: DateTime<Utc>,
    /// When it ended.
    pub finished_at: Option<DateTime<Utc>>,
    /// When its cancel was requested during a send.
    pub cancel_requested_at: Option<DateTime<Utc>>,
    /// Its own callback.
    pub callback_url: Option<String>,
    /// The id that it is sent under, as a repeat; none: its own.
    pub send_id: Option<Uuid>,
    /// Whether the downstream has executed it, once it has ended: `yes`, `no` or `unknown`.
    pub executed: Option<String>,
    /// The ETA at its submission, in seconds.
    pub eta_seconds: Option<f64>,
    /// The size of its payload as it is stored, in bytes.
    pub payload_bytes: i64,
    /// The same of its response; none: it has none.
    pub response_bytes: Option<i64>,
    /// Its error, as JSON.
    pub error: Option<String>,
    /// The state of its webhook's delivery: `pending`, `delivered` or `failed`; none: it has none.
    pub delivery: Option<String>,
    /// Attempts of the delivery.
    pub delivery_attempt: Option<i32>,
    /// The status of the last answer.
    pub delivery_status: Option<i32>,
    /// Its last error.
    pub delivery_error: Option<String>,
    /// The request as which it was submitted again.
    pub redriven_as: Option<Uuid>,
    /// The request that it is a repeat of.
    pub redrive_of: Option<Uuid>,
}

/// One transition of a request.
#[derive(Debug, Clone, FromRow)]
pub struct RequestStep {
    /// Its number, from 1.
    pub transition_no: i32,
    /// The status before; none: it was submitted.
    pub from_status: Option<String>,
    /// The status after.
    pub to_status: String,
    /// When.
    pub at: DateTime<Utc>,
    /// Checks or sends begun by then.
    pub attempt: i32,
    /// Why.
    pub cause: String,
    /// The worker that held it.
    pub worker: Option<String>,
    /// Further values, as JSON.
    pub detail: Option<String>,
}

/// A session of the database whose snapshot keeps vacuum from removing dead rows.
#[derive(Debug, Clone, FromRow)]
pub struct SnapshotHolder {
    /// Its process.
    pub pid: i32,
    /// Its user.
    pub user: String,
    /// Its program.
    pub application: String,
    /// Its state, such as `idle in transaction`.
    pub state: Option<String>,
    /// How long its transaction has been open, in seconds.
    pub seconds: f64,
}

/// A run of `recover`.
#[derive(Debug, Clone, FromRow)]
pub struct RecoveryRun {
    /// Its number.
    pub id: i64,
    /// When it began.
    pub began_at: DateTime<Utc>,
    /// When it ended; none: it is under way, or died.
    pub ended_at: Option<DateTime<Utc>>,
    /// The database user.
    pub actor: String,
    /// The operator, as the program reports.
    pub on_behalf_of: Option<String>,
    /// Its options, as JSON.
    pub options: Option<String>,
    /// What it did, as JSON.
    pub figures: Option<String>,
}

/// How good the ETAs of a kind were in one minute: `tidegate.eta_history`.
#[derive(Debug, Clone, FromRow)]
pub struct EtaMinute {
    /// The kind.
    pub kind: String,
    /// The beginning of the minute.
    pub minute: DateTime<Utc>,
    /// Mean error without its sign.
    pub mean_abs_error_seconds: Option<f64>,
    /// Mean error; above 0 answers came later than was told.
    pub mean_error_seconds: Option<f64>,
    /// Share of those that were answered within the 90 % ETA.
    pub p90_held_share: Option<f64>,
    /// Polls until the end was answered.
    pub polls_per_request: Option<f64>,
}

/// How good the ETAs of a kind were, and how callers polled.
#[derive(Debug, Clone, FromRow)]
pub struct EtaFigures {
    /// The kind.
    pub kind: String,
    /// How its ETAs are made: `nominal` or `observed`.
    pub eta: String,
    /// Requests that have ended.
    pub requests: i64,
    /// Completed requests that had an ETA.
    pub predicted: i64,
    /// Mean of answer minus ETA, in seconds.
    pub mean_error_seconds: Option<f64>,
    /// The same without signs.
    pub mean_abs_error_seconds: Option<f64>,
    /// Share of 90 percent ETAs that held.
    pub p90_held_share: Option<f64>,
    /// Mean number of polls until one returned the end.
    pub polls_per_request: Option<f64>,
    /// Mean time from an end to the poll that returned it, in seconds.
    pub mean_lateness_seconds: Option<f64>,
    /// Answers up to −30, −5, −1, 0, 1, 5, 30 seconds after their ETA, and the rest.
    pub error_bins: Vec<i64>,
}

impl Store {
    /// Begins a session of the pages: `tidegate.session_begin`.
    ///
    /// # Errors
    ///
    /// Unknown or revoked key, a database error.
    pub async fn session_begin(&self, token_hash: &[u8; 32], key_id: &str, lasts: Duration) -> Result<()> {
        run!(self, execute query "session_begin"(token_hash.as_slice(), key_id, milliseconds(lasts))).map(|_| ())
    }

    /// The API key of a session: `tidegate.session_key`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn session_key(&self, token_hash: &[u8; 32]) -> Result<Option<String>> {
        run!(self, fetch_one query_scalar "session_key"(token_hash.as_slice()))
    }

    /// Ends a session: `tidegate.session_end`. Returns whether there was one.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn session_end(&self, token_hash: &[u8; 32]) -> Result<bool> {
        run!(self, fetch_one query_scalar "session_end"(token_hash.as_slice()))
    }

    /// The requests with this id, reference, or idempotency key; the keys of a kind and a submitter.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn request_found(
        &self,
        name: &str,
        kind: Option<&str>,
        submitter: Option<&str>,
    ) -> Result<Vec<RequestId>> {
        run!(self, fetch_all query_scalar "request_found"(name, kind, submitter))
    }

    /// A request without its payload and response; `None` for an unknown id.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn request_detail(&self, id: RequestId) -> Result<Option<RequestDetail>> {
        run!(self, fetch_optional query_as "request_detail"(id.0))
    }

    /// The first thousand transitions of a request: the view `tidegate.request_event`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn request_steps(&self, id: RequestId) -> Result<Vec<RequestStep>> {
        run!(self, fetch_all query_as "request_steps"(id.0))
    }

    /// The payload or the response of a request as text, of `most` characters at most, with the number of all, and without
    /// what its kind hides; `None`: there is none.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn request_content(&self, id: RequestId, part: &str, most: i32) -> Result<Option<(String, i64)>> {
        run!(self, fetch_optional query_as "request_content"(id.0, part, most))
    }

    /// Every gate; the depths of queues are those of `queues`, because counting them again costs as much.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn gate_states(&self, queues: &[QueueOverview]) -> Result<Vec<Gate>> {
        let mut gates: Vec<Gate> = run!(self, fetch_all query_as "gate_states"())?;
        for gate in &mut gates {
            if let Some(queue) = queues.iter().find(|queue| Some(&queue.queue) == gate.queue.as_ref()) {
                gate.depth = queue.depth;
            }
        }
        Ok(gates)
    }

    /// The sessions whose snapshots have kept vacuum from removing dead rows for over a minute, the oldest first.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn snapshot_holders(&self) -> Result<Vec<SnapshotHolder>> {
        run!(self, fetch_all query_as "snapshot_holders"())
    }

    /// The latest runs of `recover`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn recoveries(&self, limit: i32) -> Result<Vec<RecoveryRun>> {
        run!(self, fetch_all query_as "recoveries"(limit))
    }

    /// How good the ETAs of every kind were by the minute: the view `tidegate.eta_history`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn eta_history(&self, since: DateTime<Utc>) -> Result<Vec<EtaMinute>> {
        run!(self, fetch_all query_as "eta_history"(since))
    }

    /// How good the ETAs of every kind were: the view `tidegate.eta_quality`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn eta_figures(&self) -> Result<Vec<EtaFigures>> {
        run!(self, fetch_all query_as "eta_figures"())
    }
}
