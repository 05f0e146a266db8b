//! Gates: their states, holds by an operator, quotas, their history, and the rows that nodes copy.

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::json;
use sqlx::FromRow;

use super::{ConfigChange, Store};
use crate::error::Result;

/// The statements of this module.
const SQL: &str = include_str!("../../sql/queries/gates.sql");

/// A gate: a queue's, or the quota of a kind or a submitter.
#[derive(Debug, Clone, PartialEq, Eq, FromRow, Serialize, utoipa::ToSchema)]
pub struct Gate {
    /// Its name: its queue, `kind direct`, `submitter ann`.
    pub name: String,
    /// The queue it belongs to; none for a quota.
    #[schema(required)]
    pub queue: Option<String>,
    /// The kind of its quota.
    #[schema(required)]
    pub kind: Option<String>,
    /// The submitter of its quota.
    #[schema(required)]
    pub submitter: Option<String>,
    /// `accepting` or `too_many_requests`.
    #[schema(pattern = "^(accepting|too_many_requests)$")]
    pub state: String,
    /// `strict` or `soft`.
    #[schema(pattern = "^(strict|soft)$")]
    pub mode: String,
    /// How many messages are in the queue now, or requests of the kind or submitter in any queue.
    pub depth: i64,
    /// The depth at which it closes.
    pub high_water: i32,
    /// The depth at which it opens again.
    pub low_water: i32,
    /// Whether an operator holds it.
    pub forced: bool,
    /// How often its state or its hold by an operator has changed.
    pub epoch: i64,
    /// The depth when that last happened.
    pub depth_at_change: i64,
    /// When that was.
    pub changed_at: DateTime<Utc>,
}

/// An operator's change of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateHold {
    /// Holds it open.
    Open,
    /// Holds it closed.
    Close,
    /// Releases it: it follows its marks again.
    Release,
}

/// The subject of a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Watched {
    /// A queue: every queue has a gate.
    Queue(String),
    /// The requests of a kind that are in queues, if the kind has a quota.
    Kind(String),
    /// The requests of a submitter that are in queues, if the submitter has a quota.
    Submitter(String),
}

impl Watched {
    /// The name of the gate.
    #[must_use]
    pub fn gate(&self) -> String {
        match self {
            Self::Queue(queue) => queue.clone(),
            Self::Kind(kind) => format!("kind {kind}"),
            Self::Submitter(submitter) => format!("submitter {submitter}"),
        }
    }
}

/// The marks and the mode of a gate; a value that is none does not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaMarks {
    /// The depth that closes it, of a quota: how many requests in queues; a new quota needs it.
    pub high_water: Option<i32>,
    /// The depth that opens it again; of a new quota, half of `high_water`.
    pub low_water: Option<i32>,
    /// `strict` or `soft`; of a new quota, `strict`.
    pub mode: Option<&'static str>,
}

/// A change of a gate, as its history keeps it.
#[derive(Debug, Clone, PartialEq, FromRow, Serialize, utoipa::ToSchema)]
pub struct GateChange {
    /// Ascends with time.
    pub id: i64,
    /// When.
    pub at: DateTime<Utc>,
    /// The gate: its queue, `kind direct`, `submitter ann`.
    pub gate: String,
    /// Which change of this gate it was, from 1.
    pub epoch: i64,
    /// `TOO_MANY_REQUESTS` or `ACCEPTING_REQUESTS`.
    #[schema(pattern = "^(TOO_MANY_REQUESTS|ACCEPTING_REQUESTS)$")]
    pub signal: String,
    /// `accepting` or `too_many_requests`.
    #[schema(pattern = "^(accepting|too_many_requests)$")]
    pub state: String,
    /// The depth at that moment.
    pub depth: i64,
    /// The cause: a mark that was reached, or an operator.
    pub cause: String,
    /// The actor, or the user of the database session.
    pub actor: String,
    /// How long it stayed in that state, in seconds, or has until now.
    pub lasted_seconds: f64,
    /// Whether it still is in that state.
    pub is_current: bool,
}

/// One row of `tidegate.gate_copy`: a gate, the submissions that it admits, and the figures of its Retry-After. Depths
/// are in messages, times in seconds.
#[derive(Debug, Clone, PartialEq, Default, FromRow)]
pub struct GateRow {
    /// Its name: its queue's, `kind direct`, or `submitter ann`.
    pub name: String,
    /// Its queue; none for a quota of a kind or a submitter.
    pub queue: Option<String>,
    /// The submitter of its quota. Its name is shown to that submitter only.
    pub submitter: Option<String>,
    /// The kinds whose new requests pass it; of a submitter's gate all.
    pub kinds: Vec<String>,
    /// The kinds whose requests pass it later.
    pub passed_by: Vec<String>,
    /// Whether it admits submissions.
    pub accepting: bool,
    /// The depth at which it closes.
    pub high_water: i64,
    /// The depth at which it opens.
    pub low_water: i64,
    /// The depth, a moment ago.
    pub depth: i64,
    /// Counts its changes.
    pub epoch: i64,
    /// Messages served per second; none means no limit, 0 stopped.
    pub drain_rate: Option<f64>,
    /// The least Retry-After while an operator holds it.
    pub forced_wait: Option<f64>,
    /// The least Retry-After while its queue does not drain.
    pub still_wait: Option<f64>,
    /// The safety margin of predictions: 0.2 is a fifth more.
    pub safety_margin: f64,
    /// The shortest Retry-After.
    pub min_seconds: f64,
    /// The longest Retry-After.
    pub max_seconds: f64,
    /// The largest jitter of a Retry-After: 0.1 is a tenth.
    pub jitter: f64,
    /// How many API nodes listen: they share the room.
    pub nodes: f64,
    /// All kinds that make idempotency keys of their payloads; the same in each row.
    pub keyed: Vec<String>,
}

impl GateRow {
    /// Its name for callers. A submitter's name may have any characters, and the submitter knows it.
    #[must_use]
    pub fn public_name(&self) -> &str {
        if self.submitter.is_some() { "submitter" } else { &self.name }
    }
}

impl Store {
    /// The gate of a name, or all, those of queues first: `tidegate.gate_overview`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn gates(&self, name: Option<&str>) -> Result<Vec<Gate>> {
        run!(self, fetch_all query_as "gates"(name))
    }

    /// Holds a gate for an operator, or releases it: `tidegate.gate_force`. Returns whether that changed anything.
    ///
    /// # Errors
    ///
    /// Unknown gate, a database error.
    pub async fn gate_force(&self, name: &str, hold: GateHold) -> Result<bool> {
        let state = match hold {
            GateHold::Open => Some("accepting"),
            GateHold::Close => Some("too_many_requests"),
            GateHold::Release => None,
        };
        run!(self, fetch_one query_scalar "gate_force"(name, state, self.actor.as_deref()))
    }

    /// Sets the marks and the mode of an existing gate by its name, as settings; returns those that changed.
    ///
    /// # Errors
    ///
    /// Unknown gate, invalid marks, a database error.
    pub async fn gate_set(&self, name: &str, marks: QuotaMarks) -> Result<Vec<ConfigChange>> {
        let marks = [
            ("high_water", json!(marks.high_water)),
            ("low_water", json!(marks.low_water)),
            ("mode", json!(marks.mode)),
        ];
        let given = marks.into_iter().filter(|(_, value)| !value.is_null());
        let settings = given.map(|(mark, value)| (format!("{name}.{mark}"), value.into()));
        self.config_set_many(&settings.collect()).await
    }

    /// Makes or changes the quota of a kind or submitter: `tidegate.quota_set`. Returns whether that changed anything.
    ///
    /// # Errors
    ///
    /// A queue, an unknown kind, invalid marks, a database error.
    pub async fn quota_set(&self, subject: &Watched, marks: QuotaMarks) -> Result<bool> {
        let (kind, submitter) = match subject {
            Watched::Queue(_) => (None, None),
            Watched::Kind(kind) => (Some(kind), None),
            Watched::Submitter(submitter) => (None, Some(submitter)),
        };
        run!(self, fetch_one query_scalar "quota_set"(
            kind, submitter, marks.high_water, marks.low_water, marks.mode, self.actor.as_deref()
        ))
    }

    /// Removes a quota by its name: `tidegate.quota_remove`. Returns whether there was one.
    ///
    /// # Errors
    ///
    /// The gate of a queue, a database error.
    pub async fn quota_remove(&self, name: &str) -> Result<bool> {
        run!(self, fetch_one query_scalar "quota_remove"(name, self.actor.as_deref()))
    }

    /// The changes of the gate of a name, or of all, the latest first: `tidegate.gate_history`. `limit` changes at
    /// most, of those before the change with the id `before`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn gate_history(&self, name: Option<&str>, limit: i32, before: Option<i64>) -> Result<Vec<GateChange>> {
        run!(self, fetch_all query_as "gate_history"(name, limit, before))
    }

    /// Every gate: `tidegate.gate_copy`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn gate_copy(&self) -> Result<Vec<GateRow>> {
        run!(self, fetch_all query_as "gate_copy"())
    }
}
