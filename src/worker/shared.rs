//! What the tasks of a worker share.

use std::{sync::Arc, time::Duration};

use sqlx::PgPool;

use super::{database_clock::DatabaseClock, leases::Leases, timeouts::LearnedTimeouts};
use crate::{
    error::StoreError, listener::Wakeups, metrics::Metrics, news::Announcer, request::Stage, stage::Stages,
    store::Store,
};

/// The options of a worker.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// Its name in tables and reports; unique in the fleet.
    pub name: String,
    /// The queues it drains, each by the stage the queue serves.
    pub queues: Vec<String>,
    /// The length of a lease; extended while a call runs.
    pub lease: Duration,
    /// Requests claimed at once, at most.
    pub batch: usize,
    /// Calls at once per queue, at most. As many outcomes may wait for their settle, and a batch of them be settled.
    pub concurrency: usize,
    /// How often an idle queue is claimed from without a notification.
    pub poll: Duration,
    /// How long running calls may go on after a shutdown.
    pub grace: Duration,
    /// The connection to listen on, when the store's connections go through a pooler that drops notifications.
    pub listen: Option<PgPool>,
    /// Its metrics; those of the process by default.
    pub metrics: Metrics,
}

impl Default for WorkerOptions {
    fn default() -> Self {
        Self {
            name: own_name(),
            queues: vec!["readiness".to_owned(), "tx".to_owned()],
            lease: Duration::from_secs(30),
            batch: 500,
            concurrency: 1000,
            poll: Duration::from_secs(2),
            grace: Duration::from_secs(20),
            listen: None,
            metrics: Metrics::default(),
        }
    }
}

/// A name for this process that no other process of the fleet has.
pub(crate) fn own_name() -> String {
    let host = nix::unistd::gethostname().ok();
    let host = host.and_then(|name| name.into_string().ok());
    format!("{}-{}-{:04x}", host.as_deref().unwrap_or("host"), std::process::id(), rand::random::<u16>())
}

/// Why a worker does not start, or stops by itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// It has no stage for any request of a queue in its options.
    #[error("queue \"{queue}\" needs a {stage} stage, and this worker has none for any kind")]
    NoStage {
        /// The queue.
        queue: String,
        /// The stage it serves.
        stage: Stage,
    },
    /// It has a stage for a kind that has no queue of that stage.
    #[error(
        "kind \"{kind}\" has no queue for a {stage} stage: register the kind, or leave out the stage if its flow has none"
    )]
    NoQueue {
        /// The kind.
        kind: String,
        /// The stage.
        stage: Stage,
    },
    /// A kind promises that each effect happens once, and its stage cannot keep that.
    #[error(
        "kind \"{0}\" has exactly_once semantics, which needs a stage that writes its effect with the receipt \
         (Stages::transact_with_effect); set its semantics to at_least_once, or leave it to another worker"
    )]
    NoEffect(String),
    /// There is no such queue.
    #[error("there is no queue \"{0}\"; see `select name, stage from tidegate.queue`")]
    UnknownQueue(String),
    /// An option has an invalid value.
    #[error("{0}")]
    Options(String),
    /// An error of the database.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The parts of a worker that its queues share.
pub(super) struct Shared {
    pub(super) store: Store,
    /// Over sessions of its own: the first claim of a session has to plan, and takes several times as long as the next.
    pub(super) claims: Store,
    pub(super) stages: Stages,
    pub(super) options: WorkerOptions,
    pub(super) wakeups: Wakeups,
    pub(super) announcer: Announcer,
    pub(super) timeouts: Arc<LearnedTimeouts>,
    pub(super) clock: DatabaseClock,
}

/// One queue of a worker, as its tasks share it.
pub(super) struct ServedQueue {
    pub(super) shared: Arc<Shared>,
    pub(super) name: String,
    pub(super) stage: Stage,
    pub(super) leases: Arc<Leases>,
}
