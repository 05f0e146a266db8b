//! A node's copy of the gates: submissions to a closed one are refused from memory, without a statement.
//!
//! The copy is the fast path; the database decides about all that it lets pass. It comes about in two ways:
//!
//! - **It is read**, when the node starts, when its listening connection is made (again), after a flip was heard, and
//!   every [`READ_EVERY`], whether or not anybody asks. So whatever was missed, or made up, is right again by then.
//! - **It is told** of each flip, on the channel `tidegate_gate`, and takes that over at once.
//!
//! Epochs say which is newer: neither a notification that comes late nor a reading that began before one was heard
//! brings back what is over. But a reading that began after all that is known was learned is right even with a smaller
//! epoch, so nothing can be stuck: a database that was restored goes back, and anybody may notify.
//!
//! A copy that could not be read for six seconds refuses nobody.

mod copy;
mod known;
mod turns;

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use serde::Deserialize;
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::{CancellationToken, DropGuard};

use self::copy::{Flip, GateCopy};
pub use self::{copy::Refusal, known::Gate};
use crate::error::warn_of;
use crate::{
    error::StoreError,
    listener::Subscriber,
    retry_after::RetryAfter,
    store::{GateRow, Store},
};

/// Where flips are told.
const GATE_CHANNEL: &str = "tidegate_gate";

/// The re-read interval: after this time at most, and that of a reading, every node knows the gates as they are.
pub const READ_EVERY: Duration = Duration::from_secs(2);

/// The least time between two readings, however much is heard.
const PAUSE: Duration = Duration::from_millis(100);

/// How long a reading may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where the gates are read.
trait Source: Clone + Send + Sync + 'static {
    fn read(&self) -> impl Future<Output = Result<Vec<GateRow>, StoreError>> + Send;
}

impl Source for Store {
    async fn read(&self) -> Result<Vec<GateRow>, StoreError> {
        self.gate_copy().await
    }
}

/// The gates, as one node knows them. Cheap to clone; clones share their copy.
#[derive(Clone)]
pub struct Gates(Arc<Shared>);

struct Shared {
    copy: Mutex<GateCopy>,
    /// Rung when something may have been missed.
    read_now: Arc<Notify>,
    /// Ends the reading with the last clone.
    _reading: DropGuard,
}

impl Gates {
    /// The gates of this database, read from now on, in a task of their own, until the last clone is dropped. For
    /// callers within a runtime.
    #[must_use]
    pub fn of(store: Store) -> Self {
        Self::read_from(store.with_patience(PATIENCE))
    }

    fn read_from(source: impl Source) -> Self {
        let stop = CancellationToken::new();
        let read_now = Arc::new(Notify::new());
        let gates = Self(Arc::new(Shared {
            copy: Mutex::default(),
            read_now: Arc::clone(&read_now),
            _reading: stop.clone().drop_guard(),
        }));
        tokio::spawn(keep_reading(Arc::downgrade(&gates.0), source, read_now, stop));
        gates
    }

    /// Whether a closed gate is in the way of a submission without a key, and when its caller is to come back. `None`
    /// when there is none, for an unknown kind or one that makes keys of its own, and while no copy is young enough: then
    /// the database decides.
    #[must_use]
    pub fn refuse(&self, kind: &str, submitter: Option<&str>) -> Option<Refusal> {
        self.0.copy().refuse(kind, submitter, Instant::now(), rand::random)
    }

    /// The time to come back for a submission of `count` requests that the database has refused until `retry_after`:
    /// that or later, so that all who are refused at this node come back one after the other.
    #[must_use]
    pub fn in_turn(&self, kind: &str, submitter: Option<&str>, retry_after: RetryAfter, count: usize) -> RetryAfter {
        let mut copy = self.0.copy();
        let opens_in = Duration::from_secs(retry_after.as_secs());
        let turn = copy.turn(kind, submitter, opens_in, count, Instant::now());
        (opens_in + turn).into()
    }

    /// The gate to tell the caller of a submission about: that of the queue that it enters, or, if it was refused and
    /// that one is open, the one that is closed. `None` for an unknown kind, and while no copy is young enough.
    #[must_use]
    pub fn of_submission(&self, kind: &str, submitter: Option<&str>, refused: bool) -> Option<Gate> {
        self.0.copy().gate_of(kind, submitter, refused, Instant::now())
    }

    /// Whether a submitter has a cap of its own, as far as this node knows.
    #[must_use]
    pub fn is_capped(&self, submitter: &str) -> bool {
        self.0.copy().is_capped(submitter)
    }

    /// Every gate, and the age of the copy; `None` before it was first read.
    #[must_use]
    pub fn all(&self) -> Option<(Vec<Gate>, Duration)> {
        let copy = self.0.copy();
        let age = copy.age(Instant::now())?;
        Some((copy.gates().cloned().collect(), age))
    }
}

impl Shared {
    fn copy(&self) -> MutexGuard<'_, GateCopy> {
        // Nothing that holds the lock can leave the copy half changed.
        self.copy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Gates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gates").finish_non_exhaustive()
    }
}

/// Reads the gates, again and again, until `stop`.
async fn keep_reading(gates: Weak<Shared>, source: impl Source, read_now: Arc<Notify>, stop: CancellationToken) {
    loop {
        let began = Instant::now();
        let reading = {
            let source = source.clone();
            // A task of its own: one that panics costs this reading only.
            tokio::spawn(async move { tokio::time::timeout(PATIENCE, source.read()).await })
        };
        let read = tokio::select! {
            () = stop.cancelled() => return,
            read = reading => read,
        };
        match (read, gates.upgrade()) {
            (_, None) => return,
            (Ok(Ok(Ok(rows))), Some(gates)) => gates.copy().read(&rows, began),
            (Ok(Ok(Err(error))), _) => warn_of!(error, "the gates could not be read"),
            (Ok(Err(_)), _) => tracing::warn!("reading the gates takes too long"),
            (Err(error), _) => tracing::error!(%error, "a reading of the gates broke down"),
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(READ_EVERY) => {}
            () = read_now.notified() => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// A notification's payload.
#[derive(Deserialize)]
struct Told {
    queue: Option<String>,
    kind: Option<String>,
    submitter: Option<String>,
    signal: Signal,
    depth: u64,
    epoch: i64,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum Signal {
    TooManyRequests,
    AcceptingRequests,
}

/// A payload, if it makes sense.
fn parse(payload: &str) -> Option<Flip> {
    let told: Told = serde_json::from_str(payload).ok()?;
    let gate = match (told.queue, told.kind, told.submitter) {
        (Some(queue), None, None) => queue,
        (None, Some(kind), None) => format!("kind {kind}"),
        (None, None, Some(submitter)) => format!("submitter {submitter}"),
        _ => return None,
    };
    Some(Flip {
        gate,
        accepting: told.signal == Signal::AcceptingRequests,
        depth: told.depth,
        epoch: told.epoch,
    })
}

impl Subscriber for Gates {
    fn channel(&self) -> &'static str {
        GATE_CHANNEL
    }

    fn heard(&self, payload: &str) {
        let Some(flip) = parse(payload) else {
            tracing::debug!(payload, "what was said of a gate makes no sense");
            return;
        };
        if !self.0.copy().heard(&flip, Instant::now()) {
            tracing::debug!(gate = flip.gate, "this node does not know the gate yet");
        }
        // For what a notification does not tell: who holds it, and how fast it drains.
        self.0.read_now.notify_one();
    }

    fn may_have_missed(&self) {
        self.0.read_now.notify_one();
    }
}

#[cfg(test)]
mod tests;
