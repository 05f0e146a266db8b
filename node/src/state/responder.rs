//! Stores responses that arrive at the same time with one statement and one commit, because these are most of the cost of a
//! response.
//!
//! A response is never delayed to fill a statement: those that arrive while statements run share the next one (see
//! [`coalescer`](tidegate::internals::coalescer)). Each has its own outcome. One whose request another transaction holds delays only
//! itself: the statement of a group gives up after some milliseconds, and the group is halved until that response is alone.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use tidegate::internals::{
    coalescer::{Coalescer, Rounds},
    error::{StoreError, warn_of},
    store::{Responded, Response, Store},
};
use tokio::sync::{Semaphore, oneshot};

use super::grouping::may_concern_one_request;

/// A group shares one error, which cannot be cloned.
type Answer = Result<Responded, Arc<StoreError>>;

/// Responses in one statement at most.
const GROUP_RESPONSES: usize = 500;

/// Their bytes at most, give or take one response.
const GROUP_BYTES: usize = 4 * 1024 * 1024;

/// Statements at once at most: while one commits, another works.
const AT_ONCE: usize = 2;

/// How long the statement of a group waits for a lock.
const LOCK_PATIENCE: Duration = Duration::from_millis(25);

/// Stores responses in groups.
#[derive(Clone)]
pub(crate) struct Responder(Arc<Coalescer<Groups>>);

struct Groups {
    store: Store,
    /// A quarter of the connections, for responses that wait for a lock.
    lock_waits: Arc<Semaphore>,
    /// How long a response may take. Longer than its caller waits, so that none is left when it fails.
    patience: Duration,
}

struct Waiting {
    response: Response,
    answer: oneshot::Sender<Answer>,
}

impl Responder {
    /// For callers that wait no longer than `patience`.
    pub(crate) fn new(store: Store, patience: Duration) -> Self {
        let connections = store.pool_options().get_max_connections() as usize;
        let lock_waits = Arc::new(Semaphore::new((connections / 4).max(1)));
        Self(Coalescer::new(Groups { store, lock_waits, patience: patience + Duration::from_secs(1) }))
    }

    /// Stores a response, together with others.
    ///
    /// # Errors
    ///
    /// Those of [`Store::respond`]; [`StoreError::Unavailable`] also when its group took too long or panicked.
    pub(crate) async fn respond(&self, response: Response) -> Answer {
        let (answer, answered) = oneshot::channel();
        self.0.add((), |waiting| waiting.push_back(Waiting { response, answer }));
        let failed = || StoreError::Unavailable("the group of responses failed".to_owned());
        answered.await.unwrap_or_else(|_| Err(Arc::new(failed())))
    }
}

impl Rounds for Groups {
    const NAME: &'static str = "responses";

    type Key = ();
    type Pending = VecDeque<Waiting>;
    type Batch = Vec<Waiting>;

    fn at_once(&self) -> usize {
        AT_ONCE
    }

    /// The waiting responses, up to the limits. That of a caller who has left is stored, too: the downstream has sent it.
    fn take(&self, pending: &mut VecDeque<Waiting>) -> Option<Vec<Waiting>> {
        let (mut group, mut bytes) = (Vec::new(), 0);
        while group.len() < GROUP_RESPONSES
            && bytes < GROUP_BYTES
            && let Some(waiting) = pending.pop_front()
        {
            bytes += waiting.response.response.get().len();
            group.push(waiting);
        }
        (!group.is_empty()).then_some(group)
    }

    async fn run(&self, (): &(), group: Vec<Waiting>) {
        // At a timeout the group is dropped, and its callers get the error of a failed group.
        if tokio::time::timeout(self.patience, self.store(group)).await.is_err() {
            tracing::warn!("a group of responses took too long");
        }
    }
}

impl Groups {
    /// Stores a group, in as many parts as are needed to give each response its own answer.
    async fn store(&self, group: Vec<Waiting>) {
        let mut parts = vec![group];
        while let Some(part) = parts.pop() {
            let (responses, mut answers): (Vec<_>, Vec<_>) =
                part.into_iter().map(|waiting| (waiting.response, waiting.answer)).unzip();
            match self.store.respond_many(&responses, Some(LOCK_PATIENCE)).await {
                Ok(results) => {
                    for (answer, result) in answers.into_iter().zip(results) {
                        // Fails when the caller has left.
                        let _ = answer.send(result.map_err(Arc::new));
                    }
                }
                Err(error) if responses.len() > 1 && may_concern_one_request(&error) => {
                    let mut part: Vec<_> = responses
                        .into_iter()
                        .zip(answers)
                        .map(|(response, answer)| Waiting { response, answer })
                        .collect();
                    let rest = part.split_off(part.len() / 2);
                    parts.extend([rest, part]);
                }
                Err(error) if error.is_lock_timeout() => {
                    for (response, answer) in responses.into_iter().zip(answers.drain(..)) {
                        self.wait_for_lock(response, answer);
                    }
                }
                Err(error) => {
                    warn_of!(error, "failed to store responses");
                    let error = Arc::new(error);
                    for answer in answers {
                        let _ = answer.send(Err(Arc::clone(&error)));
                    }
                }
            }
        }
    }

    /// Stores a response that waits for the lock of another transaction, without delaying the others.
    fn wait_for_lock(&self, response: Response, answer: oneshot::Sender<Answer>) {
        let (store, waits, patience) = (self.store.clone(), Arc::clone(&self.lock_waits), self.patience);
        tokio::spawn(async move {
            // Without an answer the caller gets the error of a failed group.
            let _ = tokio::time::timeout(patience, async {
                let _permit = waits.acquire().await;
                let _ = answer.send(store.respond(&response).await.map_err(Arc::new));
            })
            .await;
        });
    }
}
