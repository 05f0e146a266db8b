//! The callers that wait on this node, by request.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
    time::Instant,
};

use super::{ENDED, MOVED, MOVED_CHANNEL};
use crate::{
    error::{StoreError, warn_of},
    listener::Subscriber,
    lock::lock,
    request::{RequestId, Status},
    store::{Seen, Store},
};

/// How often a node polls for all awaited requests.
const POLL_PERIOD: Duration = Duration::from_secs(1);

/// The pause after a poll, in times of its duration: polling takes a fifth of the time at most.
const REST: u32 = 4;

/// Requests in one statement.
const BATCH: usize = 5000;

/// How long new waiters are gathered before the poll for their requests.
const GATHER: Duration = Duration::from_millis(10);

/// How often announcements are asked for.
const ASK_PERIOD: Duration = Duration::from_secs(5);

/// The waiting callers of this node. Cheap to clone; clones share them.
///
/// While callers wait, one task asks for announcements and polls about once a second, in one query for all requests;
/// without waiting callers there is no task.
#[derive(Clone)]
pub struct Waiters(Arc<Shared>);

struct Shared {
    store: Store,
    places: usize,
    state: Mutex<State>,
    /// Notified when a request is to be polled soon.
    poll_soon: Notify,
}

#[derive(Default)]
struct State {
    awaited: HashMap<RequestId, Awaited>,
    waiting: usize,
    /// Those of them that follow every move.
    following: usize,
    /// To be polled soon: they may have moved just before the caller began to wait.
    fresh: HashSet<RequestId>,
    /// Notifications may be lost: all requests are to be polled soon.
    all_fresh: bool,
    /// When announcements were asked for, and whether of all moves.
    asked: Option<(Instant, bool)>,
    polling: Option<JoinHandle<()>>,
    polls: u64,
}

/// A request and its transition number when it was last polled.
type Known = (RequestId, Option<i32>);

/// A request that callers wait for.
struct Awaited {
    waiting: usize,
    /// Its transition number when it was last polled.
    known: Option<i32>,
    reports: watch::Sender<Reports>,
}

/// How often a move, and an end, of a request was reported. A report may be wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Reports {
    moves: u64,
    ends: u64,
}

/// How many wait, and how often their requests were polled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// Waiters.
    pub waiters: usize,
    /// Those of them that follow every move.
    pub following: usize,
    /// Requests that they wait for.
    pub requests: usize,
    /// Polls for all of these requests, since the start.
    pub polls: u64,
}

/// A caller's wait for one request, until it is dropped.
pub struct Waiter {
    waiters: Waiters,
    id: RequestId,
    follows: bool,
    reports: watch::Receiver<Reports>,
    seen: Reports,
}

impl Waiters {
    /// Over this store, for this many at once at most.
    #[must_use]
    pub fn new(store: Store, places: usize) -> Self {
        Self(Arc::new(Shared { store, places, state: Mutex::default(), poll_soon: Notify::new() }))
    }

    /// Waits for a request's end; `None` when as many wait as may.
    #[must_use]
    pub fn wait_for(&self, id: RequestId) -> Option<Waiter> {
        self.enter(id, None, false)
    }

    /// Follows every move of a request from a transition on; `None` when as many wait as may.
    #[must_use]
    pub fn follow(&self, id: RequestId, transition_no: i32) -> Option<Waiter> {
        self.enter(id, Some(transition_no), true)
    }

    /// How many wait, and how often their requests were polled.
    #[must_use]
    pub fn waiting(&self) -> Waiting {
        let state = lock(&self.0.state);
        Waiting {
            waiters: state.waiting,
            following: state.following,
            requests: state.awaited.len(),
            polls: state.polls,
        }
    }

    /// How many may wait.
    #[must_use]
    pub fn places(&self) -> usize {
        self.0.places
    }

    /// Reports moves that this process has caused.
    pub fn moved(&self, ids: impl IntoIterator<Item = (RequestId, Status)>) {
        let state = lock(&self.0.state);
        for (id, status) in ids {
            state.report(id, status.is_terminal());
        }
    }

    fn enter(&self, id: RequestId, known: Option<i32>, follows: bool) -> Option<Waiter> {
        let mut state = lock(&self.0.state);
        if state.waiting >= self.0.places {
            return None;
        }
        state.waiting += 1;
        state.following += usize::from(follows);
        // It may have moved since the caller read its outlook.
        state.fresh.insert(id);
        let awaited =
            state.awaited.entry(id).or_insert_with(|| Awaited { waiting: 0, known, reports: watch::Sender::default() });
        awaited.waiting += 1;
        if awaited.known != known {
            // Another waiter has another transition: the next poll reports to both.
            awaited.known = None;
        }
        let reports = awaited.reports.subscribe();
        let seen = *reports.borrow();
        if state.polling.as_ref().is_none_or(JoinHandle::is_finished) {
            state.polling = Some(tokio::spawn(self.clone().poll()));
        }
        drop(state);
        self.0.poll_soon.notify_one();
        Some(Waiter { waiters: self.clone(), id, follows, reports, seen })
    }

    /// Asks for announcements and polls, as long as callers wait.
    async fn poll(self) {
        let mut next = Instant::now() + POLL_PERIOD;
        let mut failing = false;
        loop {
            self.ask_for_announcements().await;
            let began = Instant::now();
            let Some((requests, all)) = self.due(began >= next) else {
                return;
            };
            match self.poll_for(&requests).await {
                Ok(()) => failing = false,
                // Logged once, not every second.
                Err(error) if !failing => {
                    failing = true;
                    warn_of!(error, "failed to poll for awaited requests");
                }
                Err(_) => {}
            }
            if all {
                lock(&self.0.state).polls += 1;
                next = began + POLL_PERIOD.max(began.elapsed() * REST);
            }
            tokio::select! {
                () = tokio::time::sleep_until(next) => {}
                () = self.0.poll_soon.notified() => tokio::time::sleep(GATHER).await,
            }
        }
    }

    /// Asks for announcements, if that was not done recently. No process needs to receive it.
    async fn ask_for_announcements(&self) {
        let moves = lock(&self.0.state).announcements_to_ask_for(Instant::now());
        if let Some(moves) = moves
            && let Err(error) = self.0.store.watch(moves).await
        {
            tracing::debug!(%error, "failed to ask for announcements");
        }
    }

    /// The requests to be polled now, and whether these are all; `None` without waiting callers, when this task ends.
    fn due(&self, all: bool) -> Option<(Vec<Known>, bool)> {
        let mut state = lock(&self.0.state);
        if state.waiting == 0 {
            // Under the lock: the next waiter starts another task.
            state.polling = None;
            state.fresh.clear();
            return None;
        }
        let all = all || state.all_fresh;
        state.all_fresh = false;
        let fresh = std::mem::take(&mut state.fresh);
        let known = |(id, awaited): (&RequestId, &Awaited)| (*id, awaited.known);
        let requests = if all {
            state.awaited.iter().map(known).collect()
        } else {
            let awaited = fresh.iter().filter_map(|id| state.awaited.get_key_value(id));
            awaited.map(known).collect()
        };
        Some((requests, all))
    }

    async fn poll_for(&self, requests: &[Known]) -> Result<(), StoreError> {
        for batch in requests.chunks(BATCH) {
            let seen = self.0.store.moved_since(batch).await?;
            let mut state = lock(&self.0.state);
            for Seen { id, at } in seen {
                if let Some(awaited) = state.awaited.get_mut(&id) {
                    awaited.known = at.map(|(number, _)| number);
                }
                // A deleted request counts as ended: its waiters find that it is gone.
                state.report(id, at.is_none_or(|(_, status)| status.is_terminal()));
            }
        }
        Ok(())
    }

    fn leave(&self, id: RequestId, follows: bool) {
        let mut state = lock(&self.0.state);
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
}

impl State {
    /// Whether announcements of all moves are needed; `None` when no callers wait or they were asked for recently.
    fn announcements_to_ask_for(&mut self, now: Instant) -> Option<bool> {
        let moves = self.following > 0;
        let asked = self.asked.filter(|(at, of_moves)| now < *at + ASK_PERIOD && *of_moves >= moves);
        (self.waiting > 0 && asked.is_none()).then(|| {
            self.asked = Some((now, moves));
            moves
        })
    }

    fn report(&self, id: RequestId, ended: bool) {
        if let Some(awaited) = self.awaited.get(&id) {
            awaited.reports.send_modify(|reports| {
                reports.moves += 1;
                reports.ends += u64::from(ended);
            });
        }
    }
}

impl Subscriber for Waiters {
    fn channel(&self) -> &'static str {
        MOVED_CHANNEL
    }

    fn on_notification(&self, payload: &str) {
        let (sort, ids) = payload.split_once(' ').unwrap_or_default();
        // Payloads of other versions of this program are ignored.
        if sort == ENDED || sort == MOVED {
            let state = lock(&self.0.state);
            for id in ids.split(' ').filter_map(|id| id.parse().ok()) {
                state.report(id, sort == ENDED);
            }
        }
    }

    fn on_reconnect(&self) {
        lock(&self.0.state).all_fresh = true;
        self.0.poll_soon.notify_one();
    }
}

impl Waiter {
    /// Waits for a report that the request has ended, or was deleted. Check it, and wait again if it was wrong.
    pub async fn ended(&mut self) {
        let before = self.seen.ends;
        self.report(|reports| reports.ends > before).await;
    }

    /// Waits for a report that the request has moved.
    pub async fn moved(&mut self) {
        let before = self.seen.moves;
        self.report(|reports| reports.moves > before).await;
    }

    async fn report(&mut self, enough: impl FnMut(&Reports) -> bool) {
        match self.reports.wait_for(enough).await.map(|reports| *reports) {
            Ok(reports) => self.seen = reports,
            // The sender exists as long as this waiter does.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.waiters.leave(self.id, self.follows);
    }
}
