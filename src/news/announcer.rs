//! Announces the moves of requests that this process causes, while a node asks for that.

use std::{collections::VecDeque, mem, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{ENDED, MOVED, WATCH_CHANNEL};
use crate::{
    coalescer::{Coalescer, Rounds},
    listener::Subscriber,
    request::{RequestId, Status},
    store::Store,
};

/// For how long moves are announced after a node has asked for that; it asks again sooner.
const WATCHED_FOR: Duration = Duration::from_secs(15);

/// How old moves may be that are announced to a node that has just asked: its request may have moved before the node
/// asked.
const STILL_NEW: Duration = Duration::from_secs(1);

/// The least time between two announcements: the first is sent at once, the moves within the pause share the next.
const PAUSE: Duration = Duration::from_millis(50);

/// Ids of each sort in one announcement at most; nodes find older ones by polling.
const ANNOUNCED: usize = 1000;

/// Announces moves to the nodes that ask for them. Cheap to clone; clones share their announcements.
///
/// Nothing depends on it: nodes find missing moves by polling.
#[derive(Clone)]
pub struct Announcer(Arc<Coalescer<Announcements>>);

struct Announcements(Store);

/// The pending moves: to a terminal status, and the others.
#[derive(Default)]
struct Pending {
    ended: Moves,
    moved: Moves,
}

/// The pending moves of one sort, and until when they are announced.
#[derive(Default)]
struct Moves {
    wanted_until: Option<Instant>,
    ids: VecDeque<(Instant, RequestId)>,
}

impl Moves {
    fn is_wanted(&self, now: Instant) -> bool {
        self.wanted_until.is_some_and(|until| now < until)
    }

    fn is_due(&self, now: Instant) -> bool {
        !self.ids.is_empty() && self.is_wanted(now)
    }

    fn want(&mut self, now: Instant) {
        if !self.is_wanted(now) {
            self.ids.retain(|(at, _)| now.duration_since(*at) < STILL_NEW);
        }
        self.wanted_until = Some(now + WATCHED_FOR);
    }

    fn push(&mut self, now: Instant, id: RequestId) {
        if self.ids.len() == ANNOUNCED {
            self.ids.pop_front();
        }
        self.ids.push_back((now, id));
    }

    fn take(&mut self, now: Instant) -> Vec<RequestId> {
        let wanted = self.is_wanted(now).then(|| mem::take(&mut self.ids));
        wanted.into_iter().flatten().map(|(_, id)| id).collect()
    }
}

impl Announcer {
    /// Over this store; a [listener](crate::listener::listen) passes on the requests of nodes for announcements.
    #[must_use]
    pub fn new(store: Store) -> Self {
        Self(Coalescer::new(Announcements(store)))
    }

    /// Notes requests that have moved, after the commit, with their new statuses.
    pub fn note(&self, moved: impl IntoIterator<Item = (RequestId, Status)>) {
        let now = Instant::now();
        self.0.add((), |pending| {
            for (id, status) in moved {
                match status {
                    // No transition leads back here, so the request has not moved.
                    Status::Queued => {}
                    status if status.is_terminal() => pending.ended.push(now, id),
                    _ => pending.moved.push(now, id),
                }
            }
        });
    }

    /// Waits until all noted moves are announced, if they are wanted.
    pub async fn finish(&self) {
        self.0.idle().await;
    }
}

impl Rounds for Announcements {
    const NAME: &'static str = "announcements";
    /// The buffer also holds moves that are not wanted yet, and until when moves are wanted.
    const KEEPS_BUFFERS: bool = true;

    type Key = ();
    type Pending = Pending;
    /// Requests that ended, and those that only moved.
    type Batch = (Vec<RequestId>, Vec<RequestId>);

    /// Without a node that asks, no claim and no settle starts a task.
    fn is_due(&self, pending: &Pending) -> bool {
        let now = Instant::now();
        pending.ended.is_due(now) || pending.moved.is_due(now)
    }

    fn take(&self, pending: &mut Pending) -> Option<Self::Batch> {
        let now = Instant::now();
        let (ended, moved) = (pending.ended.take(now), pending.moved.take(now));
        (!ended.is_empty() || !moved.is_empty()).then_some((ended, moved))
    }

    async fn run(&self, (): &(), (ended, moved): Self::Batch) {
        if let Err(error) = self.0.announce(&ended, &moved).await {
            tracing::debug!(%error, "failed to announce moves");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

impl Subscriber for Announcer {
    fn channel(&self) -> &'static str {
        WATCH_CHANNEL
    }

    /// Payloads of other versions of this program are ignored.
    fn on_notification(&self, payload: &str) {
        let now = Instant::now();
        self.0.add((), |pending| {
            if matches!(payload, ENDED | MOVED) {
                pending.ended.want(now);
            }
            if payload == MOVED {
                pending.moved.want(now);
            }
        });
    }

    /// Nodes ask again soon.
    fn on_reconnect(&self) {}
}
