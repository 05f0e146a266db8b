//! Announces what this process moves, while a node wants to hear it.

use std::{collections::VecDeque, mem, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{ENDED, MOVED, WATCH_CHANNEL};
use crate::{
    coalescer::{Coalescer, Rounds},
    listener::Hear,
    request::{RequestId, Status},
    store::Store,
};

/// For how long news are told after a node has asked for them; it asks again sooner than that.
const WATCHED_FOR: Duration = Duration::from_secs(15);

/// How old news may be that are told to a node that has only just asked: the request that it asks for may have moved
/// while the question was under way.
const STILL_NEW: Duration = Duration::from_secs(1);

/// The least time between two announcements: the first goes out at once, what comes within the pause goes together.
const PAUSE: Duration = Duration::from_millis(50);

/// Ids of each sort in one announcement at most; older ones are left to be found by looking.
const ANNOUNCED: usize = 1000;

/// Takes note of what moves and tells the nodes that want to hear it. Cheap to clone; clones tell together.
///
/// It takes part in nothing that matters: what it cannot tell is found by looking.
#[derive(Clone)]
pub struct Teller(Arc<Coalescer<Announcements>>);

struct Announcements {
    store: Store,
}

#[derive(Default)]
struct News {
    ended: Recent,
    moved: Recent,
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
            self.news.retain(|(at, _)| now.duration_since(*at) < STILL_NEW);
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
            mem::take(&mut self.news).into_iter().map(|(_, id)| id).collect()
        } else {
            Vec::new()
        }
    }
}

impl Teller {
    /// Over this store; told what is wanted by a [listener](crate::listener::listen).
    #[must_use]
    pub fn new(store: Store) -> Self {
        Self(Coalescer::new(Announcements { store }))
    }

    /// Takes note of requests that have moved, after the commit, and of the statuses they are in since.
    pub fn note(&self, moved: impl IntoIterator<Item = (RequestId, Status)>) {
        let now = Instant::now();
        self.0.add((), |news| {
            for (id, status) in moved {
                match status {
                    // It is where it was: nothing leads back here.
                    Status::Queued => {}
                    status if status.is_terminal() => news.ended.push(now, id),
                    _ => news.moved.push(now, id),
                }
            }
        });
    }

    /// Waits until everything noted so far is told, if it is wanted.
    pub async fn finish(&self) {
        self.0.idle().await;
    }
}

impl Rounds for Announcements {
    const NAME: &'static str = "announcements";
    /// It also holds news that are not wanted yet, and until when news are wanted.
    const KEEPS_BUFFERS: bool = true;

    type Key = ();
    type Pending = News;
    /// Requests that ended, and those that only moved.
    type Batch = (Vec<RequestId>, Vec<RequestId>);

    fn take(&self, news: &mut News) -> Option<Self::Batch> {
        let now = Instant::now();
        let (ended, moved) = (news.ended.take(now), news.moved.take(now));
        (!ended.is_empty() || !moved.is_empty()).then_some((ended, moved))
    }

    async fn run(&self, (): &(), (ended, moved): Self::Batch) {
        if let Err(error) = self.store.announce(&ended, &moved).await {
            tracing::debug!(%error, "could not announce what moved");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

impl Hear for Teller {
    fn channel(&self) -> &'static str {
        WATCH_CHANNEL
    }

    fn heard(&self, payload: &str) {
        let now = Instant::now();
        self.0.add((), |news| match payload {
            ENDED => news.ended.want(now),
            MOVED => {
                news.ended.want(now);
                news.moved.want(now);
            }
            // Of another version of this program.
            _ => {}
        });
    }

    /// Nodes ask again soon.
    fn may_have_missed(&self) {}
}
