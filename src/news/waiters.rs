//! Who waits on this node, and for which request.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
    time::Instant,
};

use super::{ENDED, MOVED, MOVED_CHANNEL};
use crate::error::warn_of;
use crate::{
    error::StoreError,
    listener::Hear,
    request::{RequestId, Status},
    store::{Seen, Store},
};

/// How often a node looks at all that is waited for.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// Looking takes a fifth of the time at most.
const REST: u32 = 4;

/// Requests looked at in one statement.
const LOOK_BATCH: usize = 5000;

/// How long those who have just come wait for company before they are looked at.
const GATHER: Duration = Duration::from_millis(10);

/// How often news are asked for.
const ASK_PERIOD: Duration = Duration::from_secs(5);

/// Everybody who waits on this node. Cheap to clone; clones share them.
///
/// While somebody waits, one task asks for news and looks about once a second, in one query for all; while nobody does,
/// there is none.
#[derive(Clone)]
pub struct Waiters(Arc<Shared>);

struct Shared {
    store: Store,
    places: usize,
    state: Mutex<State>,
    /// Rung when there is somebody new to look for.
    bell: Notify,
}

#[derive(Default)]
struct State {
    awaited: HashMap<RequestId, Awaited>,
    waiting: usize,
    /// Those who follow every move, among them.
    following: usize,
    /// To be looked at soon: it may have moved just before somebody came to wait for it.
    fresh: HashSet<RequestId>,
    /// Notifications may have been missed: everything is to be looked at soon.
    all_fresh: bool,
    /// When news were asked for, and whether of all moves.
    asked: Option<(Instant, bool)>,
    looking: Option<JoinHandle<()>>,
    looks: u64,
}

/// A request that somebody waits for.
struct Awaited {
    waiting: usize,
    /// Its transition number when it was last looked at.
    known: Option<i32>,
    news: watch::Sender<News>,
}

/// How often it was said of a request that it moved, and that it ended. Either may have been said wrongly.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct News {
    moves: u64,
    ends: u64,
}

/// How many wait, and how often they were looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// Waiters.
    pub waiters: usize,
    /// Those who follow every move, among them.
    pub following: usize,
    /// Requests they wait for.
    pub requests: usize,
    /// Rounds of looking at all of them, since the start.
    pub looks: u64,
}

/// Somebody who waits for one request, until it is dropped.
pub struct Waiter {
    waiters: Waiters,
    id: RequestId,
    follows: bool,
    news: watch::Receiver<News>,
    seen: News,
}

impl Waiters {
    /// Over this store, for this many at once at most.
    #[must_use]
    pub fn new(store: Store, places: usize) -> Self {
        Self(Arc::new(Shared {
            store,
            places,
            state: Mutex::default(),
            bell: Notify::new(),
        }))
    }

    /// Waits for a request's end; `None` when all places are taken.
    #[must_use]
    pub fn wait_for(&self, id: RequestId) -> Option<Waiter> {
        self.enter(id, None, false)
    }

    /// Follows every move of a request from a transition on; `None` when all places are taken.
    #[must_use]
    pub fn follow(&self, id: RequestId, transition_no: i32) -> Option<Waiter> {
        self.enter(id, Some(transition_no), true)
    }

    /// How many wait, and how often they were looked for.
    #[must_use]
    pub fn waiting(&self) -> Waiting {
        let state = self.state();
        Waiting {
            waiters: state.waiting,
            following: state.following,
            requests: state.awaited.len(),
            looks: state.looks,
        }
    }

    /// How many may wait.
    #[must_use]
    pub fn places(&self) -> usize {
        self.0.places
    }

    /// Something has moved these requests in this very process.
    pub fn moved(&self, ids: impl IntoIterator<Item = (RequestId, Status)>) {
        let state = self.state();
        for (id, status) in ids {
            state.tell(id, status.is_terminal());
        }
    }

    fn enter(&self, id: RequestId, known: Option<i32>, follows: bool) -> Option<Waiter> {
        let mut state = self.state();
        if state.waiting >= self.0.places {
            return None;
        }
        state.waiting += 1;
        state.following += usize::from(follows);
        // Looked at in any case: it may have moved since the caller looked.
        state.fresh.insert(id);
        let awaited = state.awaited.entry(id).or_insert_with(|| Awaited {
            waiting: 0,
            known,
            news: watch::Sender::new(News::default()),
        });
        awaited.waiting += 1;
        if awaited.known != known {
            // Somebody else knows more, or less: the look tells both.
            awaited.known = None;
        }
        let news = awaited.news.subscribe();
        let seen = *news.borrow();
        if state.looking.as_ref().is_none_or(JoinHandle::is_finished) {
            state.looking = Some(tokio::spawn(self.clone().look()));
        }
        drop(state);
        self.0.bell.notify_one();
        Some(Waiter {
            waiters: self.clone(),
            id,
            follows,
            news,
            seen,
        })
    }

    /// Asks for news and looks at what is waited for, until nobody waits.
    async fn look(self) {
        let mut next = Instant::now() + LOOK_PERIOD;
        let mut failing = false;
        loop {
            self.ask_for_news().await;
            let began = Instant::now();
            let Some(due) = self.due(began >= next) else {
                return;
            };
            match self.look_at(&due.requests).await {
                Ok(()) => failing = false,
                // Said once, not every second.
                Err(error) if !failing => {
                    failing = true;
                    warn_of!(error, "cannot look at what is waited for");
                }
                Err(_) => {}
            }
            if due.all {
                self.state().looks += 1;
                next = began + LOOK_PERIOD.max(began.elapsed() * REST);
            }
            tokio::select! {
                () = tokio::time::sleep_until(next) => {}
                () = self.0.bell.notified() => tokio::time::sleep(GATHER).await,
            }
        }
    }

    /// Asks for news, if it was not done lately. Nobody may hear it, and nobody needs to.
    async fn ask_for_news(&self) {
        let now = Instant::now();
        let moves = {
            let mut state = self.state();
            let moves = state.following > 0;
            let lately = state
                .asked
                .is_some_and(|(at, of_moves)| at + ASK_PERIOD > now && of_moves >= moves);
            if state.waiting == 0 || lately {
                return;
            }
            state.asked = Some((now, moves));
            moves
        };
        if let Err(error) = self.0.store.watch(moves).await {
            tracing::debug!(%error, "could not ask for news");
        }
    }

    /// What is to be looked at now; `None` when nobody waits, and then this task has ended.
    fn due(&self, all: bool) -> Option<Due> {
        let mut state = self.state();
        if state.waiting == 0 {
            // Under the lock: whoever comes from here on starts another.
            state.looking = None;
            state.fresh.clear();
            return None;
        }
        let all = all || state.all_fresh;
        state.all_fresh = false;
        let fresh = std::mem::take(&mut state.fresh);
        let known = |(id, awaited): (&RequestId, &Awaited)| (*id, awaited.known);
        let requests: Vec<_> = if all {
            state.awaited.iter().map(known).collect()
        } else {
            fresh
                .iter()
                .filter_map(|id| state.awaited.get_key_value(id).map(known))
                .collect()
        };
        Some(Due { requests, all })
    }

    async fn look_at(&self, requests: &[(RequestId, Option<i32>)]) -> Result<(), StoreError> {
        for batch in requests.chunks(LOOK_BATCH) {
            let seen = self.0.store.moved_since(batch).await?;
            let mut state = self.state();
            for Seen { id, at } in seen {
                if let Some(awaited) = state.awaited.get_mut(&id) {
                    awaited.known = at.map(|(number, _)| number);
                }
                // One that is gone has ended, too: its waiters find that out.
                state.tell(id, at.is_none_or(|(_, status)| status.is_terminal()));
            }
        }
        Ok(())
    }

    fn leave(&self, id: RequestId, follows: bool) {
        let mut state = self.state();
        state.waiting -= 1;
        state.following -= usize::from(follows);
        if let Some(awaited) = state.awaited.get_mut(&id) {
            awaited.waiting -= 1;
            if awaited.waiting == 0 {
                state.awaited.remove(&id);
                state.fresh.remove(&id);
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a round looks at.
struct Due {
    requests: Vec<(RequestId, Option<i32>)>,
    /// Whether that is everything.
    all: bool,
}

impl State {
    fn tell(&self, id: RequestId, ended: bool) {
        if let Some(awaited) = self.awaited.get(&id) {
            awaited.news.send_modify(|news| {
                news.moves += 1;
                news.ends += u64::from(ended);
            });
        }
    }
}

impl Hear for Waiters {
    fn channel(&self) -> &'static str {
        MOVED_CHANNEL
    }

    fn heard(&self, payload: &str) {
        let (what, ids) = payload.split_once(' ').unwrap_or_default();
        // Anything else is of another version of this program.
        if what == ENDED || what == MOVED {
            let state = self.state();
            for id in ids.split(' ').filter_map(|id| id.parse().ok()) {
                state.tell(id, what == ENDED);
            }
        }
    }

    fn may_have_missed(&self) {
        self.state().all_fresh = true;
        self.0.bell.notify_one();
    }
}

impl Waiter {
    /// Waits until it is said that the request has ended, or is gone. Look whether it is true, and wait again if not.
    pub async fn ended(&mut self) {
        let before = self.seen.ends;
        self.told(|news| news.ends > before).await;
    }

    /// Waits until it is said that the request has moved.
    pub async fn moved(&mut self) {
        let before = self.seen.moves;
        self.told(|news| news.moves > before).await;
    }

    async fn told(&mut self, enough: impl FnMut(&News) -> bool) {
        match self.news.wait_for(enough).await.map(|news| *news) {
            Ok(news) => self.seen = news,
            // The sender stays as long as somebody waits, and this one does.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.waiters.leave(self.id, self.follows);
    }
}
