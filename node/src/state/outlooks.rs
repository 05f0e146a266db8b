//! Reads the outlooks of requests for many callers in few statements.
//!
//! A read is never delayed to fill a statement: reads that arrive while a statement runs share the next one.

use std::{collections::VecDeque, sync::Arc};

use tidegate::{
    internals::{
        coalescer::{Coalescer, Rounds},
        error::{StoreError, warn_of},
        store::{Progress, Store},
    },
    request::RequestId,
};
use tokio::sync::oneshot;

use super::grouping::may_concern_one_request;

/// A group shares one error, which cannot be cloned.
type Answer = Result<Option<Progress>, Arc<StoreError>>;

/// Requests read in one statement at most: each may carry a large response.
const GROUP: usize = 100;

/// Reads outlooks in groups, over a bounded number of connections.
#[derive(Clone)]
pub(crate) struct Outlooks(Arc<Coalescer<Reads>>);

struct Reads {
    store: Store,
    statements_max: usize,
}

struct Read {
    id: RequestId,
    known: Option<i32>,
    answer: oneshot::Sender<Answer>,
}

impl Outlooks {
    /// Over this store, in this many statements at once at most.
    pub(crate) fn new(store: Store, statements_max: usize) -> Self {
        Self(Coalescer::new(Reads { store, statements_max }))
    }

    /// The outlook of a request and its transitions after `known`; `None` for an unknown request.
    ///
    /// # Errors
    ///
    /// A database error; [`StoreError::Unavailable`] also when its group panicked, or when there was no answer for as
    /// long as a call waits for a connection.
    pub(crate) async fn read(&self, id: RequestId, known: Option<i32>) -> Answer {
        let (answer, answered) = oneshot::channel();
        self.0.add((), |pending| pending.push_back(Read { id, known, answer }));
        let time_limit = self.0.rounds.store.pool_options().get_acquire_timeout();
        let why = match tokio::time::timeout(time_limit, answered).await {
            Ok(Ok(answer)) => return answer,
            Ok(Err(_)) => "the group of reads failed",
            Err(_) => "too many calls read requests at once",
        };
        Err(Arc::new(StoreError::Unavailable(why.to_owned())))
    }
}

impl Rounds for Reads {
    const NAME: &'static str = "outlooks";

    type Key = ();
    type Pending = VecDeque<Read>;
    type Batch = Vec<Read>;

    fn at_once(&self) -> usize {
        self.statements_max
    }

    fn take(&self, pending: &mut VecDeque<Read>) -> Option<Vec<Read>> {
        pending.retain(|read| !read.answer.is_closed());
        let group: Vec<_> = pending.drain(..pending.len().min(GROUP)).collect();
        (!group.is_empty()).then_some(group)
    }

    /// Reads a group, in as many parts as are needed to give each request its own answer: an error may concern one.
    async fn run(&self, (): &(), group: Vec<Read>) {
        let mut parts = vec![group];
        while let Some(mut part) = parts.pop() {
            let known: Vec<_> = part.iter().map(|read| (read.id, read.known)).collect();
            let answers: Vec<Answer> = match self.store.progress(&known).await {
                Ok(answers) => answers.into_iter().map(Ok).collect(),
                Err(error) if part.len() > 1 && may_concern_one_request(&error) => {
                    let rest = part.split_off(part.len() / 2);
                    parts.extend([rest, part]);
                    continue;
                }
                Err(error) => {
                    warn_of!(error, "failed to read outlooks");
                    vec![Err(Arc::new(error)); part.len()]
                }
            };
            for (read, answer) in part.into_iter().zip(answers) {
                // Fails when the caller has left.
                let _ = read.answer.send(answer);
            }
        }
    }
}
