//! Reading where requests stand for many callers at once: a thousand who are woken together ask few statements.
//!
//! As with submissions, nothing waits for company: what is asked while a statement runs is in the next one.

use std::{
    collections::VecDeque,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

use crate::error::warn_of;
use crate::{
    request::RequestId,
    store::{Progress, Store},
};

/// Requests read in one statement at most: each may carry a large response.
const GROUP: usize = 100;

/// Reads outlooks in groups, over a bounded number of connections.
#[derive(Clone)]
pub(super) struct Outlooks(Arc<Shared>);

struct Shared {
    store: Store,
    readers_max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    asked: VecDeque<Asked>,
    readers: usize,
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
        Self(Arc::new(Shared {
            store,
            readers_max,
            state: Mutex::default(),
        }))
    }

    /// Where a request stands, and what it passed since the transition that is known; `None` for an unknown one.
    pub(super) async fn read(
        &self,
        id: RequestId,
        known: Option<i32>,
    ) -> Result<Option<Progress>, Unread> {
        let (answer, answered) = oneshot::channel();
        {
            let mut state = self.state();
            state.asked.push_back(Asked { id, known, answer });
            if state.readers < self.0.readers_max {
                state.readers += 1;
                let reader = Reader {
                    outlooks: self.clone(),
                    counted: true,
                };
                tokio::spawn(reader.run());
            }
        }
        answered.await.map_err(|_| Unread)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of those who read until nothing is asked.
struct Reader {
    outlooks: Outlooks,
    counted: bool,
}

impl Reader {
    async fn run(mut self) {
        while let Some(group) = self.next_group() {
            let known: Vec<_> = group.iter().map(|asked| (asked.id, asked.known)).collect();
            match self.outlooks.0.store.progress(&known).await {
                Ok(answers) => {
                    for (asked, answer) in group.into_iter().zip(answers) {
                        // Who has left is not told.
                        let _ = asked.answer.send(answer);
                    }
                }
                // Those who asked are told by the end of their channels.
                Err(error) => warn_of!(error, "cannot read where requests stand"),
            }
        }
    }

    /// What is asked now, up to the bound; without anything, this reader is no more.
    fn next_group(&mut self) -> Option<Vec<Asked>> {
        let mut state = self.outlooks.state();
        let mut group = Vec::new();
        while group.len() < GROUP
            && let Some(asked) = state.asked.pop_front()
        {
            if !asked.answer.is_closed() {
                group.push(asked);
            }
        }
        if group.is_empty() {
            // Under the lock: whoever asks from here on starts another.
            state.readers -= 1;
            drop(state);
            self.counted = false;
            return None;
        }
        Some(group)
    }
}

impl Drop for Reader {
    /// One that breaks down leaves its place to another.
    fn drop(&mut self) {
        if mem::take(&mut self.counted) {
            self.outlooks.state().readers -= 1;
        }
    }
}
