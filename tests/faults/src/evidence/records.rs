//! The records of a run: what a request, a call, a delivery and the others are, each as it was read.

use std::sync::Arc;

use uuid::Uuid;

use crate::scene::Quota;

/// A word that occurs many times.
pub type Word = Arc<str>;

/// One transition, as the history has it.
#[derive(Debug, Clone)]
pub struct Event {
    /// Which of its request it is, from 1.
    pub number: i32,
    /// The status before; none for the first.
    pub from: Option<Word>,
    /// The status after.
    pub to: Word,
    /// Why.
    pub cause: Word,
    /// The worker that claimed the request last.
    pub worker: Option<Word>,
    /// When, in microseconds of Unix time.
    pub at_us: i64,
}

/// One request, as its row and its history have it.
#[derive(Debug, Clone)]
pub struct Life {
    /// Its kind.
    pub kind: Word,
    /// Its flow.
    pub flow: Word,
    /// Its status.
    pub status: Word,
    /// How many transitions its row has counted.
    pub transition_no: i32,
    /// The mark in its payload.
    pub mark: Option<Box<str>>,
    /// Whether its payload is poison.
    pub poison: bool,
    /// The code of its error.
    pub error: Option<Word>,
    /// The submitter's name.
    pub submitter: Option<Word>,
    /// Whether it or its kind names a URL for its end.
    pub calls_back: bool,
    /// How many of its sends certainly did not leave, and use no attempt of its policy.
    pub unsent: i32,
    /// The request that it repeats: it is sent under the id of that one.
    pub send_id: Option<Uuid>,
    /// Whether it was executed, if it has ended: `no`, `yes` or `unknown`.
    pub executed: Word,
    /// Since when that is known, in microseconds of Unix time.
    pub known_us: Option<i64>,
    /// When it ended, in microseconds of Unix time.
    pub finished_us: Option<i64>,
    /// When it was deleted, if it was.
    pub removed_us: Option<i64>,
    /// Its transitions, in order.
    pub events: Vec<Event>,
}

impl Life {
    /// When it began.
    #[must_use]
    pub fn began_us(&self) -> Option<i64> {
        self.events.first().map(|event| event.at_us)
    }
}

/// The day of an id, which is a UUID of version 7, as the partitions of the history name it.
#[must_use]
pub fn day_of(id: Uuid) -> String {
    let ms = i64::try_from(id.as_u128() >> 80).unwrap_or_default();
    let at = chrono::DateTime::from_timestamp_millis(ms).unwrap_or_default();
    at.format("%Y_%m_%d").to_string()
}

/// One line of the downstream's log.
#[derive(Debug, Clone)]
pub struct Seen {
    /// On the downstream's monotonic clock, in microseconds.
    pub us: u64,
    /// In microseconds of Unix time.
    pub at_us: i64,
    /// Which request.
    pub id: Option<Uuid>,
    /// Its kind.
    pub kind: Word,
    /// The event: `check`, `ready`, `send`, `taken`, `delivered` and others.
    pub event: Word,
    /// The mark in the payload that was taken.
    pub key: Option<Box<str>>,
}

/// When this machine stalled, and for how long, in microseconds.
#[derive(Debug, Clone, Copy)]
pub struct Stall {
    /// When it was noticed.
    pub at_us: i64,
    /// How long it took.
    pub length_us: i64,
}

/// How many requests of a quota were in queues at a moment.
#[derive(Debug, Clone)]
pub struct QuotaCount {
    /// The name of its gate.
    pub gate: String,
    /// When they were counted, in microseconds of Unix time.
    pub at_us: i64,
    /// How many there were.
    pub live: i64,
    /// How many there may be.
    pub high_water: i64,
}

impl QuotaCount {
    /// A count of this quota.
    #[must_use]
    pub fn of(quota: &Quota, at_us: i64, live: i64) -> Self {
        Self { gate: quota.gate.to_owned(), at_us, live, high_water: quota.high_water.into() }
    }
}

/// A delivery of a webhook, as the outbox has it.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// Its id.
    pub id: Uuid,
    /// `pending`, `delivered` or `failed`.
    pub state: Word,
    /// How many attempts were begun.
    pub attempt: i32,
    /// Whether it tells of a resolution: it has taken the place of an earlier delivery.
    pub is_of_resolution: bool,
}

/// A secret that signs webhooks, with the seconds of Unix time in which it does.
#[derive(Debug, Clone)]
pub struct Secret {
    /// The secret.
    pub secret: String,
    /// From when on.
    pub from_second: i64,
    /// Until when.
    pub to_second: i64,
}

/// The rule of a breaker.
#[derive(Debug, Clone, Copy)]
pub struct BreakerRule {
    /// How long it stays open, in microseconds.
    pub open_us: i64,
    /// How many probes it lets through when it is half open.
    pub probes: usize,
    /// When a probe that was not settled counts as lost, in microseconds after its claim.
    pub lost_us: i64,
}

/// A change of a breaker.
#[derive(Debug, Clone)]
pub struct Flip {
    /// Whose breaker.
    pub kind: Word,
    /// Which of its changes this is.
    pub epoch: i64,
    /// `closed`, `open` or `half_open` from here on.
    pub state: Word,
    /// When, in microseconds of Unix time.
    pub at_us: i64,
}

/// The figures of a policy of sends, as the engine computes them.
#[derive(Debug, Clone)]
pub struct PolicyFigures {
    /// How many attempts a request has.
    pub attempts: u32,
    /// How long one may take, in microseconds.
    pub timeout_us: i64,
    /// How long all may take, with the backoffs: `W_retry`, in microseconds.
    pub w_retry_us: i64,
    /// No attempt is due later than this after the first, in microseconds.
    pub budget_us: i64,
    /// The share of calls that failed.
    pub p_drop: f64,
    /// The probability that a request succeeds.
    pub p_ok: f64,
    /// How many attempts a request has on average.
    pub expected_attempts: f64,
}

/// What the measured requests are compared with.
#[derive(Debug, Clone)]
pub struct Measured {
    /// Their policy.
    pub policy: PolicyFigures,
}

/// A quota at the end.
#[derive(Debug, Clone)]
pub struct QuotaAtRest {
    /// The state of its gate.
    pub state: String,
    /// How many requests it counts.
    pub counted: i64,
}
