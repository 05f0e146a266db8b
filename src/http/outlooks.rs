//! Reads the outlooks of requests for many callers in few statements.
//!
//! A read is never delayed to fill a statement: reads that arrive while a statement runs share the next one.

use std::{collections::VecDeque, sync::Arc};

use tokio::sync::oneshot::{self, error::RecvError};

use crate::{
    coalescer::{Coalescer, Rounds},
    error::warn_of,
    request::RequestId,
    store::{Progress, Store},
};

/// Requests read in one statement at most: each may carry a large response.
const GROUP: usize = 100;

/// Reads outlooks in groups, over a bounded number of connections.
#[derive(Clone)]
pub(super) struct Outlooks(Arc<Coalescer<Reads>>);

struct Reads {
    store: Store,
    statements_max: usize,
}

struct Read {
    id: RequestId,
    known: Option<i32>,
    answer: oneshot::Sender<Option<Progress>>,
}

impl Outlooks {
    /// Over this store, in this many statements at once at most.
    pub(super) fn new(store: Store, statements_max: usize) -> Self {
        Self(Coalescer::new(Reads { store, statements_max }))
    }

    /// The outlook of a request and its transitions after `known`; `None` for an unknown request.
    ///
    /// # Errors
    ///
    /// When the database could not be read.
    pub(super) async fn read(&self, id: RequestId, known: Option<i32>) -> Result<Option<Progress>, RecvError> {
        let (answer, answered) = oneshot::channel();
        self.0.add((), |pending| pending.push_back(Read { id, known, answer }));
        answered.await
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

    async fn run(&self, (): &(), group: Vec<Read>) {
        let known: Vec<_> = group.iter().map(|read| (read.id, read.known)).collect();
        match self.store.progress(&known).await {
            Ok(answers) => {
                for (read, answer) in group.into_iter().zip(answers) {
                    // Fails when the caller has left.
                    let _ = read.answer.send(answer);
                }
            }
            // The callers get the error as their channels are dropped.
            Err(error) => warn_of!(error, "failed to read outlooks"),
        }
    }
}
