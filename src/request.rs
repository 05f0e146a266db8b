//! The vocabulary: requests, their kinds, stages and statuses. No I/O.

use std::{borrow::Cow, fmt, str::FromStr, time::Duration};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Schema, Type},
};
use uuid::Uuid;

pub use crate::json_text::JsonText;

/// A request's id, and its caller's `job_id`: a `UUIDv7` made in the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestId(pub Uuid);

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for RequestId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// A word that is not a value of its type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{word}\" is not a {type_name}")]
pub struct UnknownWord {
    type_name: &'static str,
    word: String,
}

impl UnknownWord {
    /// `word` is not a value of this type.
    pub(crate) fn new(type_name: &'static str, word: &str) -> Self {
        Self { type_name, word: word.to_owned() }
    }
}

/// Declares an enum whose values are words of the database, lower snake case on both sides, and others that mean the
/// same.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $type_name:literal, { $($(#[$variant_doc:meta])* $variant:ident = $word:literal $(| $alias:literal)*,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum $name {
            $($(#[$variant_doc])* $(#[serde(alias = $alias)])* $variant,)+
        }

        impl $name {
            /// Every value, in the order of the database's type.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The word for it in SQL, HTTP and logs.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = UnknownWord;

            fn from_str(word: &str) -> Result<Self, Self::Err> {
                match word {
                    $($word $(| $alias)* => Ok(Self::$variant),)+
                    _ => Err(UnknownWord::new($type_name, word)),
                }
            }
        }
    };
}
pub(crate) use words;

words!(
    /// The status of a request. `docs/state-machine.md` draws the legal transitions.
    Status, "request status", {
        /// Waits for, or is under, its readiness check.
        Queued = "queued",
        /// May run; waits in its tx queue.
        Processing = "processing",
        /// A worker holds it for sending.
        TxInFlight = "tx_in_flight",
        /// The downstream took it; its response is awaited.
        ReceiptReceived = "receipt_received",
        /// Terminal: answered.
        Completed = "completed",
        /// Terminal: not ready, or not answered, in time.
        TimedOut = "timed_out",
        /// Terminal: refused, rejected, cancelled or out of attempts.
        Failure = "failure",
    }
);

impl Status {
    /// Whether no transition leaves this status.
    #[must_use]
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::TimedOut | Self::Failure)
    }
}

impl PartialSchema for Status {
    fn schema() -> RefOr<Schema> {
        let words = Self::ALL.iter().map(|status| status.as_str());
        ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words)).into()
    }
}

impl ToSchema for Status {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("State")
    }
}

words!(
    /// Whether the downstream has executed a request that has ended.
    Executed, "fact about an execution", {
        /// It has not, and will not.
        No = "no",
        /// It has.
        Yes = "yes",
        /// It was sent, and what came of it is not known.
        Unknown = "unknown",
    }
);

words!(
    /// Which statuses a kind's requests pass through.
    Flow, "flow", {
        /// Readiness check, send, response (one, or shares up to a threshold).
        Decrypt = "decrypt" | "checked",
        /// Send, verdict.
        Proof = "proof" | "verdict",
        /// Send, response; the receipt may already be the response.
        Direct = "direct",
    }
);

words!(
    /// A step of a worker's work on a request.
    Stage, "stage", {
        /// Checks whether a request can run now; limited by concurrency.
        Readiness = "readiness",
        /// Sends the request downstream; limited by rate.
        Tx = "tx",
    }
);

/// The error of a request, as its caller gets it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RequestError {
    /// A stable word for programs, such as `rejected` or `deadline_exceeded`.
    pub code: String,
    /// A message for people.
    pub message: String,
    /// Whether submitting the same request again may succeed; false of an ended request that may have been executed,
    /// unless its kind allows repeats.
    pub retryable: bool,
    /// More for programs: of a stage's error, those that it gave; of a rejected proof, the downstream's verdict, if its
    /// kind shows it (`reject_details`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<JsonText>,
}

impl RequestError {
    /// An error from its parts.
    pub fn new(code: impl Into<String>, message: impl Into<String>, retryable: bool) -> Self {
        Self { code: code.into(), message: message.into(), retryable, details: None }
    }

    /// The same error with details, which callers get: no secrets.
    #[must_use]
    pub fn with_details(self, details: impl Into<JsonText>) -> Self {
        let details = Some(details.into());
        Self { details, ..self }
    }

    /// As the database stores it: without NUL characters.
    #[must_use]
    pub fn to_json(&self) -> JsonText {
        // Its members are JSON.
        JsonText::of(self).unwrap_or_else(|_| self.code.as_str().into()).without_nul()
    }
}

/// The time limits of the parts of one call, for kinds whose policy has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phases {
    /// Until there is a connection.
    pub connect: Duration,
    /// From there to the beginning of the answer.
    pub first_byte: Duration,
    /// From there to its end.
    pub body: Duration,
}

/// A request as a stage sees it: claimed, and held under a lease while the stage runs.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Request<P = JsonText> {
    /// The request.
    pub id: RequestId,
    /// The idempotency key towards the downstream: its own id, or that of the request which it repeats because that may
    /// have been executed.
    pub send_id: RequestId,
    /// Its kind, in snake case.
    pub kind: String,
    /// The submitted payload.
    pub payload: P,
    /// Which attempt of this stage this is, from 1. At the tx stage, an attempt above 1 means that an earlier sender
    /// may have succeeded.
    pub attempt: u32,
    /// The number of the last attempt that the kind's policy allows.
    pub attempts_max: u32,
    /// The time at which the request ends as `deadline_exceeded`, by the database's clock.
    pub deadline_at: DateTime<Utc>,
    /// Its submitter, if it has one.
    pub submitter: Option<String>,
    /// The header `traceparent` for calls of the downstream: that of this attempt where the program exports traces, else that
    /// of the submission; none: there is no trace.
    pub traceparent: Option<String>,
    /// The time limits of the parts of this call; none: those of the stage.
    pub phases: Option<Phases>,
    /// The token of the lease, which `tidegate.claim` shows: another for each claim of the request.
    pub lease_token: i64,
    /// Cancelled when the stage has answered or its call is dropped (the lease is lost, the timeout has passed, the
    /// worker stops), for tasks that the stage has spawned.
    pub cancellation: CancellationToken,
}

impl<P> Request<P> {
    /// The first attempt of a request that no database has, for tests of stages.
    #[must_use]
    pub fn example(kind: impl Into<String>, payload: P) -> Self {
        let id = RequestId(Uuid::now_v7());
        Self {
            id,
            send_id: id,
            kind: kind.into(),
            payload,
            attempt: 1,
            attempts_max: 3,
            deadline_at: Utc::now() + Duration::from_secs(3600),
            submitter: None,
            traceparent: None,
            phases: None,
            lease_token: 0,
            cancellation: CancellationToken::new(),
        }
    }

    /// Whether an earlier send, of this request or of the one that it repeats, may have succeeded.
    pub(crate) fn may_be_repeated(&self) -> bool {
        self.attempt > 1 || self.send_id != self.id
    }

    /// The same request with another payload.
    pub(crate) fn with_payload<Q>(&self, payload: Q) -> Request<Q> {
        Request {
            id: self.id,
            send_id: self.send_id,
            kind: self.kind.clone(),
            payload,
            attempt: self.attempt,
            attempts_max: self.attempts_max,
            deadline_at: self.deadline_at,
            submitter: self.submitter.clone(),
            traceparent: self.traceparent.clone(),
            phases: self.phases,
            lease_token: self.lease_token,
            cancellation: self.cancellation.clone(),
        }
    }
}
