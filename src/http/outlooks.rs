//! Reading where requests stand for many callers at once: a thousand who are woken together ask few statements.
//!
//! As with submissions, nothing waits for company: what is asked while a statement runs is in the next one.

use std::{collections::VecDeque, sync::Arc};

use tokio::sync::oneshot;

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
pub(super) struct Outlooks(Arc<Coalescer<Readings>>);

struct Readings {
    store: Store,
    readers_max: usize,
}

struct Asked {
    id: RequestId,
    known: Option<i32>,
    answer: oneshot::Sender<Option<Progress>>,
}

/// The database could not be asked.
#[derive(Debug)]
pub(super) struct Unread;

impl Outlooks {
    /// Over this store, in this many statements at once at most.
    pub(super) fn new(store: Store, readers_max: usize) -> Self {
        Self(Coalescer::new(Readings { store, readers_max }))
    }

    /// Where a request stands, and what it passed since the transition that is known; `None` for an unknown one.
    pub(super) async fn read(&self, id: RequestId, known: Option<i32>) -> Result<Option<Progress>, Unread> {
        let (answer, answered) = oneshot::channel();
        let asked = Asked { id, known, answer };
        self.0.add((), |all| all.push_back(asked));
        answered.await.map_err(|_| Unread)
    }
}

impl Rounds for Readings {
    const NAME: &'static str = "outlooks";

    type Key = ();
    type Pending = VecDeque<Asked>;
    type Batch = Vec<Asked>;

    fn at_once(&self) -> usize {
        self.readers_max
    }

    /// What is asked now, up to the bound.
    fn take(&self, all: &mut VecDeque<Asked>) -> Option<Vec<Asked>> {
        let mut group = Vec::new();
        while group.len() < GROUP
            && let Some(asked) = all.pop_front()
        {
            if !asked.answer.is_closed() {
                group.push(asked);
            }
        }
        (!group.is_empty()).then_some(group)
    }

    async fn run(&self, (): &(), group: Vec<Asked>) {
        let known: Vec<_> = group.iter().map(|asked| (asked.id, asked.known)).collect();
        match self.store.progress(&known).await {
            Ok(answers) => {
                for (asked, answer) in group.into_iter().zip(answers) {
                    // A caller who has left is not told.
                    let _ = asked.answer.send(answer);
                }
            }
            // Those who asked are told by the end of their channels.
            Err(error) => warn_of!(error, "cannot read where requests stand"),
        }
    }
}
