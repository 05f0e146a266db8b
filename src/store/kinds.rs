//! Kinds: making them with their queues, and listing them.

use std::time::Duration;

use serde::Serialize;
use sqlx::FromRow;

use super::{Setting, Store};
use crate::{
    error::Result,
    request::{Flow, Stage},
};

/// The statements of this module.
const SQL: &str = include_str!("../../sql/queries/kinds.sql");

/// A kind to make, with the limits of those of its queues that are missing.
///
/// ```
/// # use tidegate::Kind;
/// let payout = Kind::direct("payout").rate(20.0);
/// let report = Kind::decrypt("report").concurrency(50).threshold(3);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Kind {
    name: String,
    flow: Flow,
    #[doc(hidden)]
    pub tx_queue: Option<String>,
    #[doc(hidden)]
    pub readiness_queue: Option<String>,
    #[doc(hidden)]
    pub threshold: i32,
    #[doc(hidden)]
    pub rate: Option<f64>,
    #[doc(hidden)]
    pub concurrency: Option<i32>,
    #[doc(hidden)]
    pub high_water: i32,
    #[doc(hidden)]
    pub low_water: Option<i32>,
    #[doc(hidden)]
    pub answers_in: Option<Duration>,
    has_shared_keys: bool,
}

impl Kind {
    /// A kind whose requests are sent and answered.
    #[must_use]
    pub fn direct(name: impl Into<String>) -> Self {
        Self::new(name, Flow::Direct)
    }

    /// A kind whose requests are sent and get a verdict.
    #[must_use]
    pub fn proof(name: impl Into<String>) -> Self {
        Self::new(name, Flow::Proof)
    }

    /// A kind whose requests are checked first, then sent, and answered by one response or by shares.
    #[must_use]
    pub fn decrypt(name: impl Into<String>) -> Self {
        Self::new(name, Flow::Decrypt)
    }

    /// A kind of this flow. Hyphens of its name, as in paths, become underscores.
    #[must_use]
    pub fn new(name: impl Into<String>, flow: Flow) -> Self {
        Self {
            name: name.into().replace('-', "_"),
            flow,
            tx_queue: None,
            readiness_queue: None,
            threshold: 1,
            rate: None,
            concurrency: None,
            high_water: 2000,
            low_water: None,
            answers_in: None,
            has_shared_keys: false,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The queue in which its requests wait to be sent: by default one of the kind's name. Kinds of one queue share its
    /// rate.
    #[must_use]
    pub fn tx_queue(mut self, queue: impl Into<String>) -> Self {
        self.tx_queue = Some(queue.into());
        self
    }

    /// The queue in which its requests wait for their check: by default one of the kind's name and `_readiness`.
    #[must_use]
    pub fn readiness_queue(mut self, queue: impl Into<String>) -> Self {
        self.readiness_queue = Some(queue.into());
        self
    }

    /// How many shares complete a request of flow decrypt: 1 by default.
    #[must_use]
    pub fn threshold(mut self, shares: i32) -> Self {
        self.threshold = shares;
        self
    }

    /// How many sends per second the whole fleet makes; no limit by default.
    #[must_use]
    pub fn rate(mut self, per_second: impl Into<f64>) -> Self {
        self.rate = Some(per_second.into());
        self
    }

    /// How many readiness checks the whole fleet has under way; no limit by default.
    #[must_use]
    pub fn concurrency(mut self, checks: i32) -> Self {
        self.concurrency = Some(checks);
        self
    }

    /// The depth at which the gates of its queues close, 2000 by default.
    #[must_use]
    pub fn high_water(mut self, messages: i32) -> Self {
        self.high_water = messages;
        self
    }

    /// The depth at which they open again: half of the high mark by default.
    #[must_use]
    pub fn low_water(mut self, messages: i32) -> Self {
        self.low_water = Some(messages);
        self
    }

    /// How long the downstream usually takes for an answer: timeouts, attempts, deadlines and the first ETAs fit that.
    /// Two seconds by default, with sends of ten seconds at most.
    #[must_use]
    pub fn answers_in(mut self, time: Duration) -> Self {
        self.answers_in = Some(time);
        self
    }

    /// Idempotency keys count across submitters: any of them gets the request that another one has submitted, and may
    /// poll it over HTTP.
    #[must_use]
    pub fn shared_keys(mut self) -> Self {
        self.has_shared_keys = true;
        self
    }
}

/// A kind, with the limits of its queues.
#[derive(Debug, Clone, PartialEq, FromRow, Serialize, utoipa::ToSchema)]
pub struct KindOverview {
    /// Its name.
    pub name: String,
    /// Its flow: `decrypt`, `proof` or `direct`.
    #[schema(pattern = "^(decrypt|proof|direct)$")]
    pub flow: String,
    /// The queue in which its requests wait for their check; null for a flow without one.
    #[schema(required)]
    pub readiness_queue: Option<String>,
    /// The queue in which its requests wait to be sent.
    pub tx_queue: String,
    /// How many shares complete a request.
    pub response_threshold: i32,
    /// Sends per second from its tx queue; null for no limit.
    #[schema(required)]
    pub per_seconds: Option<f64>,
    /// Checks at once from its readiness queue; null for no limit, or no such queue.
    #[schema(required)]
    pub max_concurrency: Option<i32>,
    /// Whether claims pass its requests over.
    pub paused: bool,
}

/// How far a kind has been removed.
#[derive(Debug, Clone, PartialEq, Eq, FromRow, Serialize, utoipa::ToSchema)]
pub struct KindRemoval {
    /// Whether it is gone; if not, call again.
    pub removed: bool,
    /// Live requests that are waited for; new ones are refused.
    pub live: i64,
    /// Requests that have ended and are still to be deleted.
    pub ended: i64,
    /// Its queues that went with it.
    pub queues_removed: Vec<String>,
    /// Its queues that stay, because other kinds use them or they hold messages.
    pub queues_kept: Vec<String>,
}

/// What goes with a kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KindRemove {
    /// Refuse new requests, and wait for live ones.
    pub drain: bool,
    /// Delete the requests that have ended.
    pub requests: bool,
    /// Remove the queues that no other kind uses.
    pub queues: bool,
}

/// A queue to make.
#[derive(Debug, Clone, PartialEq)]
pub struct NewQueue {
    /// Its name.
    pub name: String,
    /// The stage it serves.
    pub stage: Stage,
    /// Sends per second; none: no limit.
    pub rate: Option<f64>,
    /// Checks at once; none: no limit.
    pub concurrency: Option<i32>,
    /// The depth at which its gate closes; none: 2000.
    pub high_water: Option<i32>,
    /// The depth at which it opens again; none: half of the high mark.
    pub low_water: Option<i32>,
    /// `submitter` or `kind`: whose turns it serves; none: in order of arrival.
    pub fair_by: Option<String>,
}

impl Store {
    /// Makes a kind and those of its queues that are missing: `tidegate.kind_add`. Returns the settings that it made,
    /// none if the kind exists.
    ///
    /// # Errors
    ///
    /// The kind exists with another flow or other queues; an invalid name or value; a database error.
    pub async fn kind_add(&self, kind: &Kind) -> Result<Vec<Setting>> {
        run!(self, fetch_all query_as "kind_add"(
            &kind.name, kind.flow.as_str(), kind.tx_queue.as_deref(), kind.readiness_queue.as_deref(), kind.threshold,
            kind.rate, kind.concurrency, kind.high_water, kind.low_water, self.actor.as_deref(),
            if kind.has_shared_keys { "kind" } else { "submitter" }, kind.answers_in.map(|time| time.as_secs_f64())
        ))
    }

    /// The kind of a name, or every kind.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn kinds(&self, name: Option<&str>) -> Result<Vec<KindOverview>> {
        run!(self, fetch_all query_as "kinds"(name))
    }

    /// Goes a step in removing a kind: `tidegate.kind_remove`. To be called until it is removed.
    ///
    /// # Errors
    ///
    /// Unknown kind; requests that are neither to be waited for nor to be deleted; a database error.
    pub async fn kind_remove(&self, kind: &str, with: KindRemove) -> Result<KindRemoval> {
        run!(self, fetch_one query_as "kind_remove"(
            kind, with.drain, with.requests, with.queues, self.actor.as_deref()
        ))
    }

    /// Makes a queue: `tidegate.queue_add`. Returns the settings that it made, none if the queue exists.
    ///
    /// # Errors
    ///
    /// The queue exists with another stage; an invalid name or value; a database error.
    pub async fn queue_add(&self, queue: &NewQueue) -> Result<Vec<Setting>> {
        run!(self, fetch_all query_as "queue_add"(
            &queue.name, queue.stage.as_str(), queue.rate, queue.concurrency, queue.high_water.unwrap_or(2000),
            queue.low_water, self.actor.as_deref(), queue.fair_by.as_deref()
        ))
    }

    /// Removes a queue that no kind uses and that holds no request: `tidegate.queue_remove`.
    ///
    /// # Errors
    ///
    /// Unknown queue, one that is in use, a database error.
    pub async fn queue_remove(&self, queue: &str) -> Result<()> {
        run!(self, execute query "queue_remove"(queue, self.actor.as_deref())).map(|_| ())
    }
}
