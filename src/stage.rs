//! The traits that an author of stages implements: the readiness check and the send.
//!
//! The engine holds the request's lease while a stage runs and settles it by the value that the stage returns; a stage
//! never touches a request's state. A worker can be lost at any moment, so every call must be safe to repeat: towards
//! the downstream, the request's id is the idempotency key.

mod effect;

use std::{collections::BTreeMap, future::Future, pin::Pin, sync::Arc, time::Duration};

use serde_json::Value;

pub(crate) use self::effect::AnyEffect;
pub use self::effect::Effect;
use crate::request::{Request, RequestError, Stage};

/// Asks whether a request can run now.
pub trait Readiness: Send + Sync + 'static {
    /// Checks one request. Dropped when the lease is lost, the policy's timeout passes or the worker stops.
    fn check(&self, request: &Request) -> impl Future<Output = Check> + Send;
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
    /// Sends one request. Called only while the lease holds, and no earlier than the rate limit allows.
    fn send(&self, request: &Request) -> impl Future<Output = Sent> + Send;

    /// Searches for the receipt of an earlier attempt; called before every attempt but the first.
    ///
    /// # Errors
    ///
    /// When the search fails; the request is then not sent but tried again later.
    fn find_receipt(&self, request: &Request) -> impl Future<Output = Result<Option<Receipt>, RequestError>> + Send;
}

/// The downstream's acknowledgement that it took a request.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Receipt {
    /// The downstream's name for it, under which responses may come.
    pub reference: Option<String>,
    /// The response, when it came with the receipt. It answers a `direct` request in the same step, and a decrypt of a
    /// single response; for others (a proof wants a verdict, a threshold wants named shares) it is kept as one that
    /// does not fit.
    pub response: Option<Value>,
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

pub(crate) type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// [`Readiness`] behind a pointer, for the table of stages.
pub(crate) trait AnyReadiness: Send + Sync {
    fn check<'a>(&'a self, request: &'a Request) -> Pending<'a, Check>;
}

impl<S: Readiness> AnyReadiness for S {
    fn check<'a>(&'a self, request: &'a Request) -> Pending<'a, Check> {
        Box::pin(Readiness::check(self, request))
    }
}

/// [`Transact`] behind a pointer, for the table of stages.
pub(crate) trait AnyTransact: Send + Sync {
    fn send<'a>(&'a self, request: &'a Request) -> Pending<'a, Sent>;
    fn find_receipt<'a>(&'a self, request: &'a Request) -> Pending<'a, Result<Option<Receipt>, RequestError>>;
}

impl<S: Transact> AnyTransact for S {
    fn send<'a>(&'a self, request: &'a Request) -> Pending<'a, Sent> {
        Box::pin(Transact::send(self, request))
    }

    fn find_receipt<'a>(&'a self, request: &'a Request) -> Pending<'a, Result<Option<Receipt>, RequestError>> {
        Box::pin(Transact::find_receipt(self, request))
    }
}

/// A tx stage, and the writer of its effects if it has any.
#[derive(Clone)]
pub(crate) struct TransactStage {
    pub(crate) sends: Arc<dyn AnyTransact>,
    pub(crate) effects: Option<Arc<dyn AnyEffect>>,
}

/// The stages a worker runs, by kind.
///
/// A worker takes the kinds that it has stages for, and leaves the others in its queues to other workers.
#[derive(Clone, Default)]
pub struct Stages {
    pub(crate) readiness: BTreeMap<String, Arc<dyn AnyReadiness>>,
    pub(crate) transact: BTreeMap<String, TransactStage>,
}

impl Stages {
    /// No stages yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs `stage` for the readiness checks of `kind`.
    #[must_use]
    pub fn readiness(mut self, kind: impl Into<String>, stage: impl Readiness) -> Self {
        self.readiness.insert(kind.into(), Arc::new(stage));
        self
    }

    /// Runs `stage` for the sends of `kind`.
    #[must_use]
    pub fn transact(self, kind: impl Into<String>, stage: impl Transact) -> Self {
        self.insert(kind.into(), Arc::new(stage), None)
    }

    /// Runs `stage` for the sends of `kind`, and commits each receipt together with its effect.
    #[must_use]
    pub fn transact_with_effect(self, kind: impl Into<String>, stage: impl Effect) -> Self {
        let stage = Arc::new(stage);
        self.insert(kind.into(), stage.clone(), Some(stage))
    }

    fn insert(mut self, kind: String, sends: Arc<dyn AnyTransact>, effects: Option<Arc<dyn AnyEffect>>) -> Self {
        self.transact.insert(kind, TransactStage { sends, effects });
        self
    }

    /// The kinds that have one.
    pub(crate) fn kinds(&self, stage: Stage) -> Vec<String> {
        match stage {
            Stage::Readiness => self.readiness.keys().cloned().collect(),
            Stage::Tx => self.transact.keys().cloned().collect(),
        }
    }

    /// Whether each receipt of a kind commits together with its effect.
    pub(crate) fn has_effect(&self, kind: &str) -> bool {
        let stage = self.transact.get(kind);
        stage.is_some_and(|stage| stage.effects.is_some())
    }
}

impl std::fmt::Debug for Stages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stages")
            .field("readiness", &self.readiness.keys().collect::<Vec<_>>())
            .field("transact", &self.transact.keys().collect::<Vec<_>>())
            .finish()
    }
}
