//! Acts on many requests: batch after batch in the background.
//!
//! Each batch is a transaction of its own, and each request has its act in its history; so a job that ends with its node
//! leaves nothing half done, and beginning it again goes on.

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
        store::{Cancelled, PageQuery, Redrive, Store},
    },
    request::{RequestId, Status},
};
use tokio::time::Instant;
use uuid::Uuid;

use crate::state::node::Node;

/// Requests in a transaction.
const BATCH: i32 = 1000;

/// How many jobs a node remembers.
const KEPT: usize = 100;

/// What is done, to which requests.
pub(super) enum Batch {
    Cancel(Vec<RequestId>),
    CancelAll(PageQuery),
    Redrive { ids: Option<Vec<Uuid>>, query: PageQuery, may_repeat: bool },
}

impl Batch {
    pub(super) fn verb(&self) -> &'static str {
        match self {
            Self::Cancel(_) | Self::CancelAll(_) => "cancel",
            Self::Redrive { .. } => "redrive",
        }
    }
}

pub(super) struct Job {
    pub(super) batch: Batch,
    pub(super) dry_run: bool,
    pub(super) viewer: String,
    /// What the form had, to send it again.
    pub(super) form: Vec<(String, String)>,
    /// The list that it began at.
    pub(super) back: String,
    pub(super) began: Instant,
    pub(super) state: Mutex<Progress>,
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
    pub(super) fn new(batch: Batch, dry_run: bool, viewer: String, form: Vec<(String, String)>, back: String) -> Self {
        Self { batch, dry_run, viewer, form, back, began: Instant::now(), state: Mutex::default() }
    }

    fn add(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut lock(&self.state));
    }

    async fn run(&self, node: &Node, store: &Store) {
        let result = match &self.batch {
            Batch::Cancel(ids) => self.cancel(node, store, ids).await,
            Batch::CancelAll(query) => self.cancel_all(node, store, query).await,
            Batch::Redrive { ids, query, may_repeat } => self.redrive(store, ids.as_deref(), query, *may_repeat).await,
        };
        self.add(|state| {
            state.error = result.err().map(|error| error.to_string());
            state.ended = Some(Instant::now());
        });
    }

    async fn cancel(&self, node: &Node, store: &Store, ids: &[RequestId]) -> Result<(), StoreError> {
        if self.dry_run {
            let outlooks = store.outlooks(ids).await?;
            for outlook in outlooks {
                self.add(|state| match outlook.map(|outlook| outlook.status) {
                    Some(Status::Queued | Status::Processing) => state.done += 1,
                    Some(Status::TxInFlight) => state.cancelling += 1,
                    _ => state.left += 1,
                });
            }
            return Ok(());
        }
        for id in ids {
            let cancelled = store.cancel(*id).await?;
            if cancelled == Cancelled::Cancelled {
                node.moved(*id, Status::Failure);
            }
            self.add(|state| match cancelled {
                Cancelled::Cancelled => state.done += 1,
                Cancelled::Cancelling => state.cancelling += 1,
                Cancelled::NotCancellable(_) | Cancelled::Unknown => state.left += 1,
            });
        }
        Ok(())
    }

    async fn cancel_all(&self, node: &Node, store: &Store, query: &PageQuery) -> Result<(), StoreError> {
        let mut query = PageQuery { limit: BATCH, ..query.clone() };
        loop {
            let step = store.cancel_requests(&query, self.dry_run).await?;
            // Those that have ended come first.
            let ended = usize::try_from(step.cancelled).unwrap_or_default();
            for id in step.ids.iter().take(ended).filter(|_| !self.dry_run) {
                node.moved(RequestId(*id), Status::Failure);
            }
            self.add(|state| {
                state.done += step.cancelled;
                state.cancelling += step.cancelling;
            });
            query.before = step.next;
            if step.next.is_none() {
                return Ok(());
            }
        }
    }

    async fn redrive(
        &self,
        store: &Store,
        ids: Option<&[Uuid]>,
        query: &PageQuery,
        may_repeat: bool,
    ) -> Result<(), StoreError> {
        let step = Redrive {
            batch: BATCH,
            dry_run: self.dry_run,
            kind: query.kind.as_deref(),
            since: query.since,
            code: query.cause.as_deref(),
            may_repeat,
            submitter: query.submitter.as_deref(),
            until: query.until,
            requests: ids,
        };
        let mut after = None;
        loop {
            let done = store.redrive(&step, after).await?;
            self.add(|state| {
                state.done += done.redriven;
                state.left += done.refused + i64::try_from(done.unfit_ids.len()).unwrap_or_default();
                state.reason = done.unfit_reasons.first().cloned().or_else(|| state.reason.take());
                if done.refused > 0 {
                    let seconds = done.retry_after_seconds.unwrap_or_default();
                    state.reason = Some(format!("a gate has no room for the rest: again in {seconds} s"));
                }
            });
            after = done.next_after;
            if after.is_none() {
                break;
            }
        }
        if let Some(ids) = ids {
            let asked = i64::try_from(ids.len()).unwrap_or_default();
            self.add(|state| state.left = state.left.max(asked - state.done));
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
        tokio::spawn(async move { job.run(&node, &store).await });
        number
    }
}
