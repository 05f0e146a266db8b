//! A worker in this process.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::Result;
use crate::{
    stage::Stages,
    store::Store,
    worker::{self, WorkerError, WorkerOptions},
};

/// A worker that drains the queues of the kinds that it has stages for, and runs the maintenance duties that are due.
///
/// When it starts, it logs which other kinds share these queues: it leaves their requests to other workers. Its metrics
/// go to the recorder that the program has set with the crate `metrics`, if there is one.
#[must_use = "a worker does nothing before it is started"]
pub struct Worker {
    store: Store,
    stages: Stages,
    options: WorkerOptions,
}

impl Worker {
    pub(super) fn new(store: Store, stages: Stages) -> Self {
        Self { store, stages, options: WorkerOptions::default() }
    }

    /// How many calls of each queue run at once, at most: 800 by default.
    pub fn concurrency(mut self, calls: usize) -> Self {
        self.options.concurrency = calls;
        self
    }

    /// For how long a claim is exclusive, unless it is extended: 30 seconds by default. The requests of a worker that was
    /// lost go on after that time.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = lease;
        self
    }

    /// How long calls may go on after a stop: 20 seconds by default.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.options.grace = grace;
        self
    }

    /// Other options than the defaults; the queues follow from the stages.
    #[doc(hidden)]
    pub fn options(mut self, options: WorkerOptions) -> Self {
        self.options = options;
        self
    }

    /// Starts it on connections of its own: at most three for each queue, of which one claims, and three more, one of
    /// which listens and one maintains.
    ///
    /// # Errors
    ///
    /// [`WorkerError::NoQueue`] for a stage of a kind that is not registered; the others of [`WorkerError`].
    pub async fn start(mut self) -> Result<RunningWorker> {
        let (queues, without) = worker::queues(&self.store, &self.stages).await?;
        if let Some((kind, stage)) = without.into_iter().next() {
            return Err(WorkerError::NoQueue { kind, stage }.into());
        }
        self.options.queues = queues;
        let connections = u32::try_from(1 + 2 * self.options.queues.len()).unwrap_or(u32::MAX);
        let store = self.store.with_own_pool(connections);
        let stop = CancellationToken::new();
        let work = worker::prepare(store, self.stages, self.options, stop.clone()).await?;
        Ok(RunningWorker { task: tokio::spawn(work), stop: stop.drop_guard() })
    }

    /// Starts it, and stops it gracefully when `stop` ends, such as `tokio::signal::ctrl_c()`.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start); the error for which it stopped by itself.
    pub async fn run_until(self, stop: impl Future) -> Result<()> {
        let mut running = self.start().await?;
        tokio::select! {
            _ = stop => running.stop().await,
            ended = &mut running.task => ended.unwrap_or_else(|error| Err(panicked(&error))).map_err(Into::into),
        }
    }
}

/// A worker that runs until it is stopped or dropped.
#[must_use = "a worker stops when this is dropped"]
pub struct RunningWorker {
    stop: DropGuard,
    task: JoinHandle<Result<(), WorkerError>>,
}

impl RunningWorker {
    /// Stops it: its calls end within the grace period, its other claims are released.
    ///
    /// # Errors
    ///
    /// The error for which it stopped by itself.
    pub async fn stop(self) -> Result<()> {
        drop(self.stop);
        Ok(self.task.await.unwrap_or_else(|error| Err(panicked(&error)))?)
    }
}

fn panicked(error: &tokio::task::JoinError) -> WorkerError {
    WorkerError::Options(format!("the worker stopped: {error}"))
}
