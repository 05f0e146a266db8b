//! Sends submissions that arrive at the same time as a group, with one statement and one commit, because these are most
//! of the cost of a submission.
//!
//! The requests of a group are of one lane. A lane has one kind, one delayed start, one admission mode and one meaning of
//! keys, because the statement has one of each for all its requests. A submitter with a quota has lanes of its own,
//! because the lock of its quota would delay the others. The first submission of an idle lane is sent at once, alone; those that arrive
//! while its statement runs are the next group (see [`coalescer`](tidegate::internals::coalescer)). No submission waits for a group
//! to fill.
//!
//! - **A caller gets success only after the commit**, and only about its own request.
//! - **One bad request does not fail the others.** `submit_group` stores all or none, so a group that is refused for a
//!   reason that may concern one request is halved and sent again, down to a single request.
//! - **A key that an open transaction is using** delays only its own request: the statement of a group gives up after
//!   some milliseconds, and the group is halved in the same way, until that request is alone. Then it waits for the key
//!   outside the lane.
//! - **A closed gate** refuses each new request separately; a replay in the same group is answered.
//! - **A caller that leaves** removes only its own request, if its group has not been sent yet.
//! - **A statement that panics or hangs** fails its group: the callers get a retryable error, and the lane continues
//!   with the next group.
//! - **Without the database** every group fails as soon as the pool reports it. Nothing is retried here, because no
//!   caller has a job id yet, and each can decide to repeat its call.
//! - **Under overload** a group is limited in requests and bytes; the rest is the next group. The API limits the calls
//!   that are under way, and so the memory of the requests that no statement has yet.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use chrono::{DateTime, Utc};
use metrics::Histogram;
use tidegate::{
    internals::{
        coalescer::{Coalescer, Rounds},
        error::StoreError,
        store::{Admission, GroupRequests, GroupTerms, SameKey, Store, Submission, Submitted},
    },
    request::JsonText,
};
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};

use crate::state::gates::Gates;

/// Requests in one statement at most.
const GROUP_REQUESTS: usize = 500;

/// Payload bytes in one statement at most, give or take one request.
const GROUP_BYTES: usize = 4 * 1024 * 1024;

/// The result of a submission. A group shares one error, which cannot be cloned.
pub(crate) type SubmitResult = Result<Submitted, Arc<StoreError>>;

/// How long the statement of a group waits for a key that another transaction uses: a few times the duration of a
/// submission.
const KEY_PATIENCE: Duration = Duration::from_millis(25);

/// The requests that may share a statement.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Lane {
    kind: String,
    /// Whether its requests have idempotency keys. A kind may require them, and its refusal is for the whole group.
    has_keys: bool,
    same_key: SameKey,
    /// The submitter, if it has a quota.
    quota_of: Option<String>,
    not_before: Option<DateTime<Utc>>,
    admission: Admission,
}

/// A submission that is in no statement yet.
struct Waiting {
    payload: JsonText,
    key: Option<String>,
    submitter: Option<String>,
    traceparent: Option<String>,
    callback_url: Option<String>,
    answer: oneshot::Sender<SubmitResult>,
}

/// The requests of one statement, as the arrays that are its parameters.
#[derive(Default)]
struct Group {
    payloads: Vec<JsonText>,
    keys: Vec<Option<String>>,
    submitters: Vec<Option<String>>,
    traceparents: Vec<Option<String>>,
    callback_urls: Vec<Option<String>>,
    answers: Vec<oneshot::Sender<SubmitResult>>,
}

impl Group {
    fn push(&mut self, waiting: Waiting) {
        self.payloads.push(waiting.payload);
        self.keys.push(waiting.key);
        self.submitters.push(waiting.submitter);
        self.traceparents.push(waiting.traceparent);
        self.callback_urls.push(waiting.callback_url);
        self.answers.push(waiting.answer);
    }

    fn split_off(&mut self, at: usize) -> Self {
        Self {
            payloads: self.payloads.split_off(at),
            keys: self.keys.split_off(at),
            submitters: self.submitters.split_off(at),
            traceparents: self.traceparents.split_off(at),
            callback_urls: self.callback_urls.split_off(at),
            answers: self.answers.split_off(at),
        }
    }

    async fn submit(
        &self,
        store: &Store,
        lane: &Lane,
        patience: Option<Duration>,
    ) -> Result<Vec<Submitted>, StoreError> {
        let terms = GroupTerms {
            same_key: lane.same_key,
            admission: lane.admission,
            not_before: lane.not_before,
            key_patience: patience,
        };
        let if_any = |values: &[Option<String>]| values.iter().any(Option::is_some);
        let requests = GroupRequests {
            payloads: &self.payloads,
            idempotency_keys: lane.has_keys.then_some(&self.keys),
            submitters: Some(&self.submitters),
            traceparents: if_any(&self.traceparents).then_some(&self.traceparents),
            callback_urls: if_any(&self.callback_urls).then_some(&self.callback_urls),
        };
        store.submit_group(&lane.kind, requests, terms).await
    }

    /// Answers each caller; sending fails for one that has left.
    fn answer(self, submitted: Result<Vec<Submitted>, StoreError>) {
        let results: Vec<SubmitResult> = match submitted {
            Ok(submitted) => submitted.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(Arc::new(error)); self.answers.len()],
        };
        if results.len() != self.answers.len() {
            tracing::error!("submit_group returned a wrong number of rows");
        }
        for (answer, result) in self.answers.into_iter().zip(results) {
            let _ = answer.send(result);
        }
    }
}

/// Sends submissions in groups.
#[derive(Clone)]
pub(crate) struct Submitter(Arc<Coalescer<Lanes>>);

struct Lanes {
    store: Store,
    gates: Gates,
    /// Observes the number of submissions per statement.
    sizes: Histogram,
    /// Half of the connections: submissions of many kinds must leave connections to polls.
    statements: Semaphore,
    /// A quarter of the connections, for requests that wait for a key.
    key_waits: Arc<Semaphore>,
    /// How long a group may take. Longer than its callers wait, so that none is left when the group fails.
    patience: Duration,
}

impl Submitter {
    /// For callers that wait no longer than `patience`.
    pub(crate) fn new(store: Store, gates: Gates, patience: Duration, sizes: Histogram) -> Self {
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

    /// Submits a request, together with others of its lane.
    ///
    /// # Errors
    ///
    /// Those of [`Store::submit`]; [`StoreError::Unavailable`] also when its group took too long or panicked.
    pub(crate) async fn submit(&self, submission: Submission) -> SubmitResult {
        let submitter = submission.submitter.as_ref();
        let lane = Lane {
            kind: submission.kind,
            has_keys: submission.idempotency_key.is_some(),
            same_key: submission.same_key,
            quota_of: submitter.filter(|name| self.0.rounds.gates.has_quota(name)).cloned(),
            not_before: submission.not_before,
            admission: submission.admission,
        };
        let (answer, answered) = oneshot::channel();
        let waiting = Waiting {
            payload: submission.payload,
            key: submission.idempotency_key,
            submitter: submission.submitter,
            traceparent: submission.traceparent,
            callback_url: submission.callback_url,
            answer,
        };
        self.0.add(lane, |queue| {
            // Before the queue grows, requests whose callers have left are removed.
            if queue.len() == queue.capacity() {
                queue.retain(|waiting| !waiting.answer.is_closed());
            }
            queue.push_back(waiting);
        });
        let failed = || StoreError::Unavailable("the submission's group failed".to_owned());
        answered.await.unwrap_or_else(|_| Err(Arc::new(failed())))
    }

    /// Submits a batch in its own statement, all or none. The key stands for the whole batch.
    ///
    /// # Errors
    ///
    /// Those of [`Store::submit_batch`].
    pub(crate) async fn submit_batch(
        &self,
        kind: &str,
        payloads: &[JsonText],
        key: Option<&str>,
        submitter: Option<&str>,
        admission: Admission,
        traceparent: Option<&str>,
    ) -> Result<Vec<Submitted>, StoreError> {
        let Lanes { store, statements, .. } = &self.0.rounds;
        let _permit = statements.acquire().await;
        match key {
            Some(key) => store.submit_batch_once(kind, payloads, key, submitter, admission, traceparent).await,
            None => store.submit_batch(kind, payloads, None, submitter, admission, traceparent).await,
        }
    }
}

impl Rounds for Lanes {
    const NAME: &'static str = "submissions";

    type Key = Lane;
    type Pending = VecDeque<Waiting>;
    type Batch = Group;

    /// Waits for a permit; the group grows meanwhile.
    async fn begin(&self) -> Option<SemaphorePermit<'_>> {
        self.statements.acquire().await.ok()
    }

    /// The waiting requests, up to the limits.
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
        // At a timeout the group is dropped, and its callers get the error of a failed group.
        let sending = tokio::time::timeout(self.patience, self.send(lane, group));
        if sending.await.is_err() {
            tracing::warn!(request.kind = lane.kind, "a group of submissions took too long");
        }
    }
}

impl Lanes {
    /// Sends a group, in as many parts as are needed to give each request its own answer.
    async fn send(&self, lane: &Lane, group: Group) {
        let mut parts = vec![group];
        while let Some(mut part) = parts.pop() {
            self.sizes.record(part.keys.len() as f64);
            let submitted = part.submit(&self.store, lane, Some(KEY_PATIENCE)).await;
            match &submitted {
                Err(error) if part.answers.len() > 1 && may_concern_one_request(error) => {
                    let rest = part.split_off(part.answers.len() / 2);
                    parts.extend([rest, part]);
                }
                Err(error) if error.is_lock_timeout() => self.wait_for_key(lane, part),
                _ => part.answer(submitted),
            }
        }
    }

    /// Sends a request that waits for the key of another transaction, without delaying the lane.
    fn wait_for_key(&self, lane: &Lane, alone: Group) {
        let (lane, store) = (lane.clone(), self.store.clone());
        // Less than the time of the call, whose caller is to be told what it has waited for.
        let (waits, patience) = (Arc::clone(&self.key_waits), self.patience / 2);
        tokio::spawn(async move {
            let sending = tokio::time::timeout(patience, async {
                let _permit = waits.acquire().await;
                alone.submit(&store, &lane, None).await
            });
            let busy = |_| {
                let why = "another transaction has used this idempotency key and is still open: nothing was stored";
                Err(StoreError::KeyBusy(why.to_owned()))
            };
            let submitted = sending.await.unwrap_or_else(busy);
            alone.answer(submitted);
        });
    }
}

/// Whether an error may concern one request of a group, and not its kind or the database.
pub(crate) fn may_concern_one_request(error: &StoreError) -> bool {
    match error {
        // Misuse: such as two submitters in a group, of which one has got a quota since the gates were copied.
        StoreError::KeyReused(_)
        | StoreError::Unstorable(_)
        | StoreError::Misuse(_)
        | StoreError::CallbackRefused(_) => true,
        // Such as a payload that an operator's constraint or trigger refuses, or a key of an open transaction.
        StoreError::Database(_) => !error.is_transient() || error.is_lock_timeout(),
        _ => false,
    }
}
