//! Submissions that arrive at once share a statement, and so a commit: under load most of what a submission costs.
//!
//! Each kind has a lane; so has, in it, each submitter with a cap, whose lock would keep the others waiting. The first
//! submission of an idle lane is sent at once, alone; what arrives while its statement runs waits, and is the next group
//! (see [`coalescer`](crate::coalescer)). Nothing ever waits *for* a group to fill.
//!
//! - **A caller hears of success only after the commit**, and each hears of its own request only.
//! - **One bad request does not fail its neighbours.** `submit_group` takes all or none, so a group that is refused for
//!   what may be one member's fault is halved and sent again, until the refusal has a single owner.
//! - **A key that another transaction is about to use** is waited for by its request alone, outside the lane: a group
//!   whose statement meets one gives up after a moment and is halved, too.
//! - **A closed gate** refuses each new request by itself; a replay in the same group is answered.
//! - **A caller who leaves** takes only its own request out, if its group has not been sent yet.
//! - **A statement that panics or hangs** costs its group: the callers get an error that tells them to come back, and
//!   the lane goes on with the next group.
//! - **The database is down:** every group fails as soon as the pool says so. Nothing is retried here, because no
//!   caller was promised anything yet, and the callers know best whether they still want it.
//! - **Too much at once:** a group ends at a number of requests and of bytes; the rest is the next group. What waits in
//!   memory is bounded by the calls that the API admits.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use metrics::Histogram;
use serde_json::value::RawValue;
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};

use crate::{
    coalescer::{Coalescer, Rounds},
    error::StoreError,
    gate::Gates,
    store::{Admission, Store, Submission, Submitted},
};

/// Requests in one statement at most.
const GROUP_REQUESTS: usize = 500;

/// Payload bytes in one statement at most, give or take one request.
const GROUP_BYTES: usize = 4 * 1024 * 1024;

/// What a submission is answered with. A group shares one error, which cannot be cloned.
pub(super) type Answer = Result<Submitted, Arc<StoreError>>;

/// How long a statement waits for the keys of other transactions: a few times what a submission takes.
const KEY_PATIENCE: Duration = Duration::from_millis(25);

/// Which requests may share a statement.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Lane {
    kind: String,
    /// A submitter with a cap.
    capped: Option<String>,
}

/// Requests that a caller submits together.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) kind: String,
    pub(super) payloads: Vec<Box<RawValue>>,
    /// Of the whole batch.
    pub(super) idempotency_key: Option<String>,
    pub(super) submitter: Option<String>,
}

struct Waiting {
    payload: Box<RawValue>,
    key: Option<String>,
    submitter: Option<String>,
    answer: oneshot::Sender<Answer>,
}

/// One statement's requests, in columns as the statement wants them.
#[derive(Default)]
struct Group {
    payloads: Vec<Box<RawValue>>,
    keys: Vec<Option<String>>,
    submitters: Vec<Option<String>>,
    answers: Vec<oneshot::Sender<Answer>>,
}

impl Group {
    fn push(&mut self, waiting: Waiting) {
        self.payloads.push(waiting.payload);
        self.keys.push(waiting.key);
        self.submitters.push(waiting.submitter);
        self.answers.push(waiting.answer);
    }

    fn split_off(&mut self, at: usize) -> Self {
        Self {
            payloads: self.payloads.split_off(at),
            keys: self.keys.split_off(at),
            submitters: self.submitters.split_off(at),
            answers: self.answers.split_off(at),
        }
    }

    async fn submit(
        &self,
        store: &Store,
        kind: &str,
        key_patience: Option<Duration>,
    ) -> Result<Vec<Submitted>, StoreError> {
        let keys = self.keys.iter().any(Option::is_some);
        store
            .submit_group(
                kind,
                &self.payloads,
                keys.then_some(self.keys.as_slice()),
                Some(&self.submitters),
                None,
                key_patience,
            )
            .await
    }

    /// Tells each caller; one that has left is not told.
    fn answer(self, submitted: Result<Vec<Submitted>, StoreError>) {
        match submitted {
            Ok(submitted) => {
                if submitted.len() != self.answers.len() {
                    tracing::error!("submit_group answers for another number of requests");
                }
                for (answer, submitted) in self.answers.into_iter().zip(submitted) {
                    let _ = answer.send(Ok(submitted));
                }
            }
            Err(error) => {
                let error = Arc::new(error);
                for answer in self.answers {
                    let _ = answer.send(Err(Arc::clone(&error)));
                }
            }
        }
    }
}

/// Sends submissions in groups.
#[derive(Clone)]
pub(super) struct Submitter(Arc<Coalescer<Lanes>>);

struct Lanes {
    store: Store,
    gates: Gates,
    /// Observes how many share a statement.
    sizes: Histogram,
    /// Half of the connections: submissions of many kinds must not keep the polls from theirs.
    statements: Semaphore,
    /// A quarter of the connections, for requests that wait for a key.
    key_waits: Arc<Semaphore>,
    /// How long a group may take. Longer than its callers wait, so that a group that is given up has none left.
    patience: Duration,
}

impl Submitter {
    /// Over this store, for callers who wait no longer than `patience`.
    pub(super) fn new(store: Store, gates: Gates, patience: Duration, sizes: Histogram) -> Self {
        let connections = store.pool_options().get_max_connections() as usize;
        Self(Coalescer::new(Lanes {
            store,
            gates,
            sizes,
            statements: Semaphore::new((connections / 2).max(1)),
            key_waits: Arc::new(Semaphore::new((connections / 4).max(1))),
            patience: patience + Duration::from_secs(1),
        }))
    }

    /// Submits a request, which has no `not_before`, together with others of its lane.
    ///
    /// # Errors
    ///
    /// Those of [`Store::submit`]; [`StoreError::Unavailable`] also when its group was given up.
    pub(super) async fn submit(&self, submission: Submission) -> Answer {
        let capped = (submission.submitter.as_ref())
            .filter(|submitter| self.0.rounds.gates.has_quota(submitter))
            .cloned();
        let lane = Lane {
            kind: submission.kind,
            capped,
        };
        let (answer, answered) = oneshot::channel();
        let waiting = Waiting {
            payload: submission.payload,
            key: submission.idempotency_key,
            submitter: submission.submitter,
            answer,
        };
        self.0.add(lane, |queue| {
            // Where the queue would have to grow, those who have left make room first.
            if queue.len() == queue.capacity() {
                queue.retain(|waiting| !waiting.answer.is_closed());
            }
            queue.push_back(waiting);
        });
        answered.await.unwrap_or_else(|_| {
            Err(Arc::new(StoreError::Unavailable(
                "the submission's group was given up".to_owned(),
            )))
        })
    }

    /// Submits a batch of its own: all of it or nothing, in a statement of its own.
    ///
    /// # Errors
    ///
    /// Those of [`Store::submit_batch`].
    pub(super) async fn submit_batch(&self, batch: &Batch) -> Result<Vec<Submitted>, StoreError> {
        let Lanes { store, statements, .. } = &self.0.rounds;
        let _turn = statements.acquire().await;
        let (kind, submitter) = (&batch.kind, batch.submitter.as_deref());
        let admission = Admission::Enforce;
        match &batch.idempotency_key {
            Some(key) => {
                store
                    .submit_batch_once(kind, &batch.payloads, key, submitter, admission)
                    .await
            }
            None => {
                store
                    .submit_batch(kind, &batch.payloads, None, submitter, admission)
                    .await
            }
        }
    }
}

impl Rounds for Lanes {
    const NAME: &'static str = "submissions";

    type Key = Lane;
    type Pending = VecDeque<Waiting>;
    type Batch = Group;

    /// Waits for a statement; the group grows meanwhile.
    async fn begin(&self) -> Option<SemaphorePermit<'_>> {
        self.statements.acquire().await.ok()
    }

    /// What waits now, up to the bounds.
    fn take(&self, queue: &mut VecDeque<Waiting>) -> Option<Group> {
        let mut group = Group::default();
        let mut bytes = 0;
        while group.answers.len() < GROUP_REQUESTS
            && bytes < GROUP_BYTES
            && let Some(waiting) = queue.pop_front()
        {
            if !waiting.answer.is_closed() {
                bytes += waiting.payload.get().len();
                group.push(waiting);
            }
        }
        (!group.answers.is_empty()).then_some(group)
    }

    async fn run(&self, lane: &Lane, group: Group) {
        let sending = tokio::time::timeout(self.patience, self.send(lane, group));
        if sending.await.is_err() {
            tracing::warn!(request.kind = lane.kind, "a group of submissions took too long");
        }
    }
}

impl Lanes {
    /// Sends a group, in as many parts as it takes to give each member its own answer.
    async fn send(&self, lane: &Lane, group: Group) {
        let mut parts = vec![group];
        while let Some(mut part) = parts.pop() {
            self.sizes.record(part.keys.len() as f64);
            let submitted = part.submit(&self.store, &lane.kind, Some(KEY_PATIENCE)).await;
            match &submitted {
                Err(error) if part.answers.len() > 1 && may_be_one_members(error) => {
                    let rest = part.split_off(part.answers.len() / 2);
                    parts.push(rest);
                    parts.push(part);
                }
                Err(error) if error.is_lock_timeout() => self.wait_for_key(lane, part),
                _ => part.answer(submitted),
            }
        }
    }

    /// Sends what another transaction is in the way of, and lets the lane go on.
    fn wait_for_key(&self, lane: &Lane, alone: Group) {
        let kind = lane.kind.clone();
        let (store, waits, patience) = (self.store.clone(), Arc::clone(&self.key_waits), self.patience);
        tokio::spawn(async move {
            let sending = tokio::time::timeout(patience, async {
                let _turn = waits.acquire().await;
                alone.submit(&store, &kind, None).await
            });
            // Without an answer the caller hears that the group was given up.
            if let Ok(submitted) = sending.await {
                alone.answer(submitted);
            }
        });
    }
}

/// Whether an error may be about one request of a group, rather than about its kind or the database.
fn may_be_one_members(error: &StoreError) -> bool {
    match error {
        StoreError::KeyReused(_) | StoreError::Unstorable(_) | StoreError::Misuse(_) => true,
        // Such as a payload that a kind's own constraint or trigger refuses, or a key that is waited for.
        StoreError::Database(_) => !error.is_transient() || error.is_lock_timeout(),
        _ => false,
    }
}
