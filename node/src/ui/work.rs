//! Acts on many requests: batch after batch in the background.
//!
//! Each batch is a transaction of its own, and each request has its act in its history; so a job that ends with its
//! node leaves nothing half done, and beginning it again goes on.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use tidegate::{
    internals::{
        error::StoreError,
        lock::lock,
        store::{PageQuery, Redrive, Store},
    },
    request::{RequestId, Status},
};
use tokio::time::Instant;
use uuid::Uuid;

use super::background::result_of;
use crate::state::node::Node;

/// Requests in a transaction.
const BATCH: i32 = 1000;

/// How many jobs a node remembers.
const KEPT: usize = 100;

/// What is done.
#[derive(Clone, Copy)]
pub(super) enum Act {
    Cancel,
    Redrive { may_repeat: bool },
}

impl Act {
    pub(super) fn verb(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Redrive { .. } => "redrive",
        }
    }
}

pub(super) struct Job {
    pub(super) act: Act,
    /// The requests that were chosen; none: all that the query lets through.
    pub(super) ids: Option<Vec<Uuid>>,
    pub(super) query: PageQuery,
    pub(super) dry_run: bool,
    pub(super) viewer: String,
    /// What the form had, to send it again.
    pub(super) form: Vec<(String, String)>,
    /// The list that it began at.
    pub(super) back: String,
    pub(super) began: Instant,
    pub(super) progress: Mutex<Progress>,
}

#[derive(Default, Clone)]
pub(super) struct Progress {
    /// Ended, or submitted again.
    pub(super) done: i64,
    /// Being sent: cancelled unless that succeeds.
    pub(super) cancelling: i64,
    /// Refused by a gate, or in a state in which it cannot be done.
    pub(super) left: i64,
    pub(super) reason: Option<String>,
    pub(super) ended: Option<Instant>,
    pub(super) error: Option<String>,
}

impl Job {
    fn add(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut lock(&self.progress));
    }

    async fn run(&self, node: &Node, store: &Store) -> Result<(), StoreError> {
        match self.act {
            Act::Cancel => self.cancel(node, store).await,
            Act::Redrive { may_repeat } => self.redrive(store, may_repeat).await,
        }
    }

    fn end(&self, result: Result<(), String>) {
        self.add(|progress| {
            progress.error = result.err();
            // Of those that were chosen.
            if let Some(ids) = &self.ids {
                let asked = i64::try_from(ids.len()).unwrap_or_default();
                progress.left = progress.left.max(asked - progress.done - progress.cancelling);
            }
            progress.ended = Some(Instant::now());
        });
    }

    async fn cancel(&self, node: &Node, store: &Store) -> Result<(), StoreError> {
        let mut query = PageQuery { limit: BATCH, ..self.query.clone() };
        loop {
            let step = store.cancel_requests(&query, self.ids.as_deref(), self.dry_run).await?;
            // Those that have ended come first.
            let ended = usize::try_from(step.cancelled).unwrap_or_default();
            for id in step.ids.iter().take(ended).filter(|_| !self.dry_run) {
                node.moved(RequestId(*id), Status::Failure);
            }
            self.add(|progress| {
                progress.done += step.cancelled;
                progress.cancelling += step.cancelling;
            });
            query.before = step.next;
            if step.next.is_none() {
                return Ok(());
            }
        }
    }

    async fn redrive(&self, store: &Store, may_repeat: bool) -> Result<(), StoreError> {
        let query = &self.query;
        let step = Redrive {
            batch: BATCH,
            dry_run: self.dry_run,
            kind: query.kind.as_deref(),
            since: None,
            code: query.cause.as_deref(),
            may_repeat,
            submitter: query.submitter.as_deref(),
            until: None,
            requests: self.ids.as_deref(),
            statuses: &query.statuses,
        };
        let mut after = None;
        loop {
            let done = store.redrive(&step, after).await?;
            self.add(|progress| {
                progress.done += done.redriven;
                progress.left += done.refused + i64::try_from(done.unfit_ids.len()).unwrap_or_default();
                progress.reason = done.unfit_reasons.first().cloned().or_else(|| progress.reason.take());
                if done.refused > 0 {
                    let seconds = done.retry_after_seconds.unwrap_or_default();
                    progress.reason = Some(format!("a gate has no room for the rest: again in {seconds} s"));
                }
            });
            after = done.next_after;
            if after.is_none() {
                break;
            }
        }
        Ok(())
    }
}

/// The jobs of this node.
#[derive(Default)]
pub(super) struct Jobs {
    last: AtomicU64,
    known: Mutex<BTreeMap<u64, Arc<Job>>>,
}

impl Jobs {
    pub(super) fn find(&self, number: u64) -> Option<Arc<Job>> {
        lock(&self.known).get(&number).cloned()
    }

    pub(super) fn begin(&self, job: Job, node: Node, store: Store) -> u64 {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let job = Arc::new(job);
        let mut known = lock(&self.known);
        known.insert(number, Arc::clone(&job));
        while known.len() > KEPT {
            known.pop_first();
        }
        drop(known);
        tokio::spawn(async move {
            let running = Arc::clone(&job);
            job.end(result_of(async move { running.run(&node, &store).await }).await);
        });
        number
    }
}
