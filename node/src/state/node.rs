//! A node: what the API of one process shares, and what a program needs to serve routes of its own beside it.

use std::{collections::HashSet, sync::Arc};

use axum::http::request::Parts;
use tidegate::{
    internals::{
        api_key::Scope,
        error::StoreError,
        listener::Subscriber,
        news::{Announcer, Waiters},
        store::{self, Outlook, Store, Submission, Submitted},
    },
    request::{RequestId, Status},
    retry_after::RetryAfter,
};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{
    access::{Access, Caller, Refusal},
    gates::Gates,
    grouping::{SubmitResult, Submitter},
    metrics::{NodeMetrics, exporter::Exporter},
    node_options::{Keys, NodeOptions},
    outlooks::Outlooks,
    places::{Permit, Places},
    responder::Responder,
};

/// Connections for operators, API keys, gates, readiness and metrics, so that repairing an overloaded node does not
/// wait for the connections that are in use.
const OPERATORS_CONNECTIONS: u32 = 2;

/// A node of the API. Cheap to clone; clones share their state.
///
/// A program merges [`router`](Self::router) with its own routes, whose handlers use the node: they have its groups of
/// submissions, its copies of gates and keys, and its limits. [`serve`](Self::serve) serves all of it.
#[derive(Clone)]
pub struct Node {
    pub(crate) store: Store,
    pub(crate) operators: Store,
    pub(crate) waiters: Waiters,
    pub(crate) announcer: Announcer,
    pub(crate) gates: Gates,
    pub(crate) access: Access,
    pub(crate) places: Places,
    pub(crate) submitter: Submitter,
    pub(crate) responder: Responder,
    pub(crate) metrics: Arc<NodeMetrics>,
    /// Reads the outlooks of requests for polls, for replays, and for callers that have waited.
    pub(crate) outlooks: Outlooks,
    pub(crate) options: Arc<NodeOptions>,
    /// Permits for polls of several requests, and for reading the owner of one; their number leaves connections to the
    /// other calls.
    lookups: Arc<Semaphore>,
}

impl Node {
    /// A node over one database, whose API has these routes. It starts to read the gates; for callers within a runtime.
    pub(crate) fn over(store: Store, options: NodeOptions, routes: HashSet<String>) -> Self {
        let operators = store.with_own_pool(OPERATORS_CONNECTIONS);
        let waiters = Waiters::new(store.clone(), options.http.waiters_max);
        // Not over the connections of submissions: the copy matters most when they are all in use.
        let gates = Gates::of(operators.clone());
        let places = Places::new(options.http.concurrency_limit);
        let connections = store.pool_options().get_max_connections() as usize;
        let metrics = Arc::new(NodeMetrics::new(
            options.exporter.clone(),
            (&store, &operators),
            routes,
            places.clone(),
            waiters.clone(),
            gates.clone(),
        ));
        let patience = options.http.request_timeout;
        Self {
            announcer: Announcer::new(store.clone()),
            access: Access::new(operators.clone(), options.keys != Keys::OnceCreated),
            submitter: Submitter::new(store.clone(), gates.clone(), patience, metrics.group_sizes()),
            responder: Responder::new(store.clone(), patience),
            // Polls share statements on a quarter of the connections; with the lookups they leave a quarter to
            // submissions.
            outlooks: Outlooks::new(store.clone(), (connections / 4).max(1)),
            lookups: Arc::new(Semaphore::new((connections / 2).max(1))),
            options: Arc::new(options),
            waiters,
            gates,
            places,
            metrics,
            operators,
            store,
        }
    }

    /// The callers that wait on this node.
    #[doc(hidden)]
    #[must_use]
    pub fn waiters(&self) -> &Waiters {
        &self.waiters
    }

    /// This node's copy of the gates.
    #[doc(hidden)]
    #[must_use]
    pub fn gates(&self) -> &Gates {
        &self.gates
    }

    /// The subscribers of this node, for [`listen`](tidegate::internals::listener::listen).
    #[doc(hidden)]
    #[must_use]
    pub fn subscribers(&self) -> Vec<Box<dyn Subscriber>> {
        let (waiters, announcer, gates) = (self.waiters.clone(), self.announcer.clone(), self.gates.clone());
        vec![Box::new(waiters), Box::new(announcer), Box::new(gates)]
    }

    /// A place among the calls that this node serves at once, held until it is dropped; `None`: it has as many, and the
    /// caller may choose another node. `/v1` has the same places.
    #[must_use]
    pub fn admit(&self) -> Option<Permit> {
        self.places.take()
    }

    /// The caller of one of the program's own routes, by its API key.
    ///
    /// # Errors
    ///
    /// [`Refusal`]: no key, an unknown one, one without the scope; or the keys cannot be read.
    pub async fn caller(&self, call: &Parts, scope: Scope) -> Result<Caller, Refusal> {
        self.access.program_caller(call, scope, &self.options).await
    }

    /// Submits a request, in one statement with others that arrive meanwhile. Without a key, a closed gate refuses it
    /// without a statement.
    ///
    /// # Errors
    ///
    /// Those of the database; a group shares its error.
    pub async fn submit(&self, submission: Submission) -> Result<Submitted, Arc<StoreError>> {
        if submission.idempotency_key.is_none()
            && submission.admission == store::Admission::Enforce
            && let Some(refusal) = self.gates.refuse(&submission.kind, submission.submitter.as_deref())
        {
            self.metrics.refused_from_memory(&submission.kind);
            let retry_after = RetryAfter::seconds(refusal.seconds);
            return Ok(Submitted::Refused { retry_after });
        }
        self.submit_past_gate(submission).await
    }

    /// [`submit`](Self::submit) for a caller that has asked the gate.
    pub(crate) async fn submit_past_gate(&self, submission: Submission) -> Result<Submitted, Arc<StoreError>> {
        let (kind, submitter) = (submission.kind.clone(), submission.submitter.clone());
        let submitted = self.submitter.submit(submission).await;
        self.noted(&kind, submitter.as_deref(), submitted)
    }

    /// Reports the move of a request by a call, to waiters here and on other nodes.
    pub(crate) fn moved(&self, id: RequestId, status: Status) {
        self.waiters.moved([(id, status)]);
        self.announcer.note([(id, status)]);
    }

    /// Counts a submission. One that the database has refused is asked to come back in its turn.
    fn noted(&self, kind: &str, submitter: Option<&str>, submitted: SubmitResult) -> SubmitResult {
        let submitted = submitted.inspect_err(|error| self.metrics.submission_failed(kind, error))?;
        self.metrics.submitted(kind, &submitted);
        Ok(match submitted {
            Submitted::Refused { retry_after } => {
                Submitted::Refused { retry_after: self.gates.in_turn(kind, submitter, retry_after, 1) }
            }
            submitted => submitted,
        })
    }

    /// Where a request stands, for a poll, read in one statement with the polls that arrive meanwhile; `None` for an
    /// unknown id.
    ///
    /// # Errors
    ///
    /// Those of the database; a group shares its error.
    pub async fn outlook(&self, id: RequestId) -> Result<Option<Outlook>, Arc<StoreError>> {
        let outlook = self.outlooks.read(id, None).await?.map(|progress| progress.outlook);
        if let Some(outlook) = &outlook {
            self.metrics.polled(outlook);
        }
        Ok(outlook)
    }

    /// A permit to read requests by their ids; `None`: there was none for as long as a call waits for a connection.
    pub(crate) async fn lookup(&self, store: &Store) -> Option<SemaphorePermit<'_>> {
        let time_limit = store.pool_options().get_acquire_timeout();
        tokio::time::timeout(time_limit, self.lookups.acquire()).await.ok()?.ok()
    }

    /// Where this node counts. [`Exporter::install`] adds what other crates of the program count.
    #[must_use]
    pub fn exporter(&self) -> &Exporter {
        self.metrics.exporter()
    }

    /// The body of `/metrics`, for a port of the program's own: Prometheus' text format.
    pub async fn render_metrics(&self) -> String {
        self.metrics.render(&self.store).await
    }
}
