//! The traits that an author of stages implements: the readiness check and the send.
//!
//! The engine holds the request's lease while a stage runs and settles it by the value that the stage returns; a stage
//! never touches a request's state. A worker can be lost at any moment, so every call must be safe to repeat: towards
//! the downstream, the request's `send_id` is the idempotency key.
//!
//! A stage declares the type of its payloads. A request whose payload does not parse is never sent, and ends in failure
//! with the code `invalid_payload`.
//!
//! ```
//! use serde::Deserialize;
//! use tidegate::{request::Request, stage::{Sent, Stages}};
//!
//! #[derive(Deserialize)]
//! struct Payout {
//!     to: String,
//!     cents: u64,
//! }
//!
//! let stages = Stages::new().send("payout", |request: Request<Payout>| async move {
//!     let Payout { to, cents } = request.payload;
//!     // Call the downstream here, with `request.send_id` as the idempotency key.
//!     Sent::response(format!("{cents} cents to {to}"))
//! });
//! ```

mod closure;
mod effect;
mod payload;
mod stages;

use std::{future::Future, pin::Pin, time::Duration};

use serde::de::DeserializeOwned;

pub(crate) use self::effect::AnyEffect;
use self::payload::Typed;
pub use self::{effect::Effect, stages::Stages};
pub use crate::request::JsonText;
use crate::request::{Request, RequestError};

/// Asks whether a request can run now.
pub trait Readiness: Send + Sync + 'static {
    /// The payload of its requests; [`JsonText`] for the text as it is stored, unparsed.
    type Payload: DeserializeOwned + Send + Sync + 'static;

    /// Checks one request. Dropped when the lease is lost, the policy's timeout passes or the worker stops.
    fn check(&self, request: &Request<Self::Payload>) -> impl Future<Output = Check> + Send;
}

/// The answer of a readiness check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Check {
    /// It can run.
    Ready,
    /// Not now; ask again, after this long or as the kind's policy has it.
    Snooze {
        /// The wait that the dependency asks for, such as its `Retry-After`.
        after: Option<Duration>,
    },
    /// The check itself did not succeed: a timeout, no connection, a server's error. Ask again as the kind's policy has
    /// it.
    Retry {
        /// Why it did not.
        error: RequestError,
        /// The wait that the dependency asks for, such as its `Retry-After`.
        after: Option<Duration>,
    },
    /// It never can.
    Failed(RequestError),
}

/// Sends a request downstream.
pub trait Transact: Send + Sync + 'static {
    /// The payload of its requests; [`JsonText`] for the text as it is stored, unparsed.
    type Payload: DeserializeOwned + Send + Sync + 'static;

    /// Sends one request. Called only while the lease holds, and no earlier than the rate limit allows.
    fn send(&self, request: &Request<Self::Payload>) -> impl Future<Output = Sent> + Send;

    /// Searches for the receipt of an earlier attempt; called before every attempt that may repeat one, and after the end
    /// of a request that may have been executed, for as long as its kind's `resolve_for`.
    ///
    /// By default it finds none, and the request is sent again: right for a downstream that recognises the request's
    /// [`send_id`](Request::send_id) as an idempotency key, or where a repeated send does no harm.
    ///
    /// # Errors
    ///
    /// When the search fails; the request is then not sent but tried again later.
    fn find_receipt(
        &self,
        _request: &Request<Self::Payload>,
    ) -> impl Future<Output = Result<Found, RequestError>> + Send {
        std::future::ready(Ok(Found::Nothing))
    }

    /// Whether [`ask`](Self::ask) is to be called; by default it is not.
    fn asks(&self) -> bool {
        false
    }

    /// Asks for the response of a direct request that the downstream took and has not answered; `reference` is that of
    /// its receipt. Called first a second after the receipt, and then again and again until there is one, for as long as
    /// its kind's `response_timeout`.
    fn ask(&self, _request: &Request<Self::Payload>, _reference: Option<&str>) -> impl Future<Output = Asked> + Send {
        std::future::ready(Asked::Later { after: None })
    }
}

/// What the downstream says when it is asked for a response.
#[derive(Debug, Clone, PartialEq)]
pub enum Asked {
    /// The response.
    Response(JsonText),
    /// None yet, or the ask has failed: ask again.
    Later {
        /// The wait that the downstream asks for, such as its `Retry-After`.
        after: Option<Duration>,
    },
    /// It did not do what the request asks for, and will not.
    Failed(RequestError),
}

/// What a search for the receipt of an earlier attempt has found.
#[derive(Debug, Clone, PartialEq)]
pub enum Found {
    /// The downstream took it.
    Receipt(Receipt),
    /// No receipt; the attempt may still arrive.
    Nothing,
    /// The downstream promises that it has not executed the request, and will not execute an attempt that was made.
    Never,
}

impl From<Option<Receipt>> for Found {
    fn from(receipt: Option<Receipt>) -> Self {
        receipt.map_or(Self::Nothing, Self::Receipt)
    }
}

/// The downstream's acknowledgement that it took a request.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Receipt {
    /// The downstream's name for it, under which responses may come.
    pub reference: Option<String>,
    /// The response, when it came with the receipt. It answers a `direct` request in the same step, and a decrypt of a
    /// single response; for others (a proof wants a verdict, a threshold wants named shares) it is kept as one that
    /// does not fit.
    pub response: Option<JsonText>,
}

/// The answer to a send.
#[derive(Debug, Clone, PartialEq)]
pub enum Sent {
    /// The downstream took it.
    Receipt(Receipt),
    /// Another attempt may succeed.
    Retry {
        /// Why this one did not.
        error: RequestError,
        /// The wait that the downstream asks for, such as its `Retry-After`.
        after: Option<Duration>,
        /// Whether the downstream may have seen the request: false only when it certainly has not.
        may_have_left: bool,
    },
    /// The downstream refused it permanently.
    Rejected(RequestError),
}

impl Sent {
    /// The downstream took it, and this is its response.
    ///
    /// It is JSON already, because a request that was sent must not fail for want of it: `serde_json::json!`,
    /// [`serde_json::to_value`] of a type of your own, or a [`JsonText`], whose numbers keep all their digits.
    ///
    /// ```compile_fail,E0277
    /// # use std::collections::HashMap;
    /// // A map with such keys is no JSON.
    /// tidegate::stage::Sent::response(HashMap::from([((1, 2), "x")]));
    /// ```
    #[must_use]
    pub fn response(response: impl Into<JsonText>) -> Self {
        Self::Receipt(Receipt { reference: None, response: Some(response.into()) })
    }

    /// The downstream took it, and its response comes under this name.
    #[must_use]
    pub fn receipt(reference: impl Into<String>) -> Self {
        Self::Receipt(Receipt { reference: Some(reference.into()), response: None })
    }

    /// Another attempt may succeed, and this one may have arrived.
    #[must_use]
    pub fn retry(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Retry { error: RequestError::new(code, message, true), after: None, may_have_left: true }
    }

    /// The downstream refused it permanently.
    #[must_use]
    pub fn rejected(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Rejected(RequestError::new(code, message, false))
    }
}

pub(crate) type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// [`Readiness`] behind a pointer, for the table of stages.
pub(crate) trait AnyReadiness: Send + Sync {
    fn check<'a>(&'a self, request: &'a Request) -> Pending<'a, Check>;
}

impl<S: Readiness> AnyReadiness for S {
    fn check<'a>(&'a self, request: &'a Request) -> Pending<'a, Check> {
        Box::pin(async move {
            match Typed::of(request) {
                Ok(request) => Readiness::check(self, &request).await,
                Err(error) => Check::Failed(error),
            }
        })
    }
}

/// [`Transact`] behind a pointer, for the table of stages.
pub(crate) trait AnyTransact: Send + Sync {
    fn send<'a>(&'a self, request: &'a Request) -> Pending<'a, Sent>;
    fn find_receipt<'a>(&'a self, request: &'a Request) -> Pending<'a, Result<Found, RequestError>>;

    fn asks(&self) -> bool {
        false
    }

    fn ask<'a>(&'a self, _request: &'a Request, _reference: Option<&'a str>) -> Pending<'a, Asked> {
        Box::pin(std::future::ready(Asked::Later { after: None }))
    }
}

impl<S: Transact> AnyTransact for S {
    fn send<'a>(&'a self, request: &'a Request) -> Pending<'a, Sent> {
        Box::pin(async move {
            match Typed::of(request) {
                Ok(request) => Transact::send(self, &request).await,
                Err(error) => Sent::Rejected(error),
            }
        })
    }

    fn find_receipt<'a>(&'a self, request: &'a Request) -> Pending<'a, Result<Found, RequestError>> {
        Box::pin(async move {
            match Typed::of(request) {
                Ok(request) => Transact::find_receipt(self, &request).await,
                // No attempt can have sent it, unless an earlier program parsed it; `send` rejects it.
                Err(_) => Ok(Found::Nothing),
            }
        })
    }

    fn asks(&self) -> bool {
        Transact::asks(self)
    }

    fn ask<'a>(&'a self, request: &'a Request, reference: Option<&'a str>) -> Pending<'a, Asked> {
        Box::pin(async move {
            match Typed::of(request) {
                Ok(request) => Transact::ask(self, &request, reference).await,
                Err(_) => Asked::Later { after: None },
            }
        })
    }
}
