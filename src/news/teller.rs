//! Announces what this process moves, while somebody wants to hear it.

use std::{
    collections::VecDeque,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{task::JoinHandle, time::Instant};

use super::{ENDED, MOVED, WATCH_CHANNEL};
use crate::{
    listener::Hear,
    request::{RequestId, Status},
    store::Store,
};

/// For how long after somebody asked news are told; nodes ask again sooner than that.
const WATCHED_FOR: Duration = Duration::from_secs(15);

/// How old news may be that are told to somebody who has only just asked: the request whose caller asks may have moved
/// while the question was under way.
const STILL_NEW: Duration = Duration::from_secs(1);

/// The least time between two announcements: the first goes out at once, what comes within the pause goes together.
const PAUSE: Duration = Duration::from_millis(50);

/// Ids of each sort in one announcement at most; older ones are left to be found by looking.
const ANNOUNCED: usize = 1000;

/// Takes note of what moves and tells whoever wants to hear it. Cheap to clone; clones tell together.
///
/// It takes part in nothing that matters: what it cannot tell is found by looking.
#[derive(Clone)]
pub struct Teller(Arc<Shared>);

struct Shared {
    store: Store,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ended: Recent,
    moved: Recent,
    /// Tells until there is nothing left to tell.
    telling: Option<JoinHandle<()>>,
}

/// News of one sort, and until when they are wanted.
#[derive(Default)]
struct Recent {
    wanted_until: Option<Instant>,
    news: VecDeque<(Instant, RequestId)>,
}

impl Recent {
    fn is_wanted(&self, now: Instant) -> bool {
        self.wanted_until.is_some_and(|until| now < until)
    }

    fn want(&mut self, now: Instant) {
        if !self.is_wanted(now) {
            self.news
                .retain(|(at, _)| now.duration_since(*at) < STILL_NEW);
        }
        self.wanted_until = Some(now + WATCHED_FOR);
    }

    fn push(&mut self, now: Instant, id: RequestId) {
        if self.news.len() == ANNOUNCED {
            self.news.pop_front();
        }
        self.news.push_back((now, id));
    }

    fn take(&mut self, now: Instant) -> Vec<RequestId> {
        if self.is_wanted(now) {
            mem::take(&mut self.news)
                .into_iter()
                .map(|(_, id)| id)
                .collect()
        } else {
            Vec::new()
        }
    }
}

impl Teller {
    /// Over this store; told what is wanted by a [listener](crate::listener::listen).
    #[must_use]
    pub fn new(store: Store) -> Self {
        Self(Arc::new(Shared {
            store,
            state: Mutex::default(),
        }))
    }

    /// Takes note of requests that have moved, after the commit, and of the statuses they are in since.
    pub fn note(&self, moved: impl IntoIterator<Item = (RequestId, Status)>) {
        let now = Instant::now();
        let mut state = self.state();
        for (id, status) in moved {
            match status {
                // It is where it was: nothing leads back here.
                Status::Queued => {}
                status if status.is_terminal() => state.ended.push(now, id),
                _ => state.moved.push(now, id),
            }
        }
        self.tell(&mut state, now);
    }

    /// Waits until everything noted so far is told, if it is wanted.
    pub async fn finish(&self) {
        let telling = self.state().telling.take();
        if let Some(telling) = telling {
            let _ = telling.await;
        }
    }

    /// Sees to it that news that are wanted are told.
    fn tell(&self, state: &mut State, now: Instant) {
        let wanted = |recent: &Recent| recent.is_wanted(now) && !recent.news.is_empty();
        if (wanted(&state.ended) || wanted(&state.moved))
            && state.telling.as_ref().is_none_or(JoinHandle::is_finished)
        {
            state.telling = Some(tokio::spawn(self.clone().announce()));
        }
    }

    async fn announce(self) {
        loop {
            let (ended, moved) = {
                let mut state = self.state();
                let now = Instant::now();
                let news = (state.ended.take(now), state.moved.take(now));
                if news.0.is_empty() && news.1.is_empty() {
                    // Under the lock: whoever notes something from here on starts another.
                    state.telling = None;
                    return;
                }
                news
            };
            if let Err(error) = self.0.store.announce(&ended, &moved).await {
                tracing::debug!(%error, "could not announce what moved");
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hear for Teller {
    fn channel(&self) -> &'static str {
        WATCH_CHANNEL
    }

    fn heard(&self, payload: &str) {
        let now = Instant::now();
        let mut state = self.state();
        match payload {
            ENDED => state.ended.want(now),
            MOVED => {
                state.ended.want(now);
                state.moved.want(now);
            }
            // Of another version of this program.
            _ => return,
        }
        self.tell(&mut state, now);
    }

    /// Whoever waits asks again soon.
    fn may_have_missed(&self) {}
}
