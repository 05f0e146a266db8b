//! Settles attempts that end at the same time with one statement and one commit: else a host of quick answers gets no
//! more deliveries than a few commits at a time allow.

use std::sync::Arc;

use tidegate::{
    internals::{
        coalescer::{Coalescer, Rounds},
        error::StoreError,
        store::{Attempt, Store, WebhookSettled},
    },
    request::RequestId,
};
use tokio::sync::oneshot;

/// Attempts in one statement at most.
const GROUP: usize = 500;

/// A group shares one error, which cannot be cloned.
type Answer = Result<WebhookSettled, Arc<StoreError>>;

/// Settles attempts in groups.
pub(super) struct Settles(Arc<Coalescer<Groups>>);

struct Groups {
    store: Store,
}

struct Waiting {
    attempt: Attempt,
    answer: oneshot::Sender<Answer>,
}

impl Settles {
    pub(super) fn new(store: Store) -> Self {
        Self(Coalescer::new(Groups { store }))
    }

    /// Settles an attempt, together with others. One whose delivery another transaction holds waits for it by itself.
    ///
    /// # Errors
    ///
    /// Those of [`Store::webhook_settle`]; [`StoreError::Unavailable`] also when its group panicked.
    pub(super) async fn settle(&self, attempt: Attempt) -> Answer {
        let (answer, answered) = oneshot::channel();
        let request: RequestId = attempt.request_id;
        let alone = attempt.clone();
        self.0.add((), |waiting| waiting.push(Waiting { attempt, answer }));
        let failed = || StoreError::Unavailable(format!("the group that settles the delivery of {request} failed"));
        match answered.await.unwrap_or_else(|_| Err(Arc::new(failed()))) {
            Ok(WebhookSettled::Locked) => self.0.rounds.store.webhook_settle(&alone).await.map_err(Arc::new),
            other => other,
        }
    }
}

impl Rounds for Groups {
    const NAME: &'static str = "settles of webhooks";

    type Key = ();
    type Pending = Vec<Waiting>;
    type Batch = Vec<Waiting>;

    fn take(&self, pending: &mut Vec<Waiting>) -> Option<Vec<Waiting>> {
        let group: Vec<_> = pending.drain(..pending.len().min(GROUP)).collect();
        (!group.is_empty()).then_some(group)
    }

    async fn run(&self, (): &(), group: Vec<Waiting>) {
        let (attempts, answers): (Vec<_>, Vec<_>) =
            group.into_iter().map(|waiting| (waiting.attempt, waiting.answer)).unzip();
        // An answer that nobody waits for belongs to a deliverer that has been cut off.
        match self.store.webhook_settle_many(&attempts).await {
            Ok(settled) => {
                for (answer, settled) in answers.into_iter().zip(settled) {
                    let _ = answer.send(Ok(settled));
                }
            }
            Err(error) => {
                let error = Arc::new(error);
                for answer in answers {
                    let _ = answer.send(Err(Arc::clone(&error)));
                }
            }
        }
    }
}
