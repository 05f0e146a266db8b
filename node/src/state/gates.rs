//! A node's copy of the gates: submissions to a closed gate are refused from memory, without a statement.
//!
//! The copy is the fast path; the database decides about every submission that the copy does not refuse. It changes in
//! two ways:
//!
//! - **Readings**: when the node starts, when its listening connection is made (again), after a notification, and every
//!   [`READ_EVERY`]. They correct missed and forged notifications.
//! - **Notifications** of each flip, on the channel `tidegate_gate`, change the copy at once.
//!
//! The larger epoch is newer: neither a late notification nor a reading that began before a notification restores an
//! older state. A reading that began after the last change of the copy counts even with a smaller epoch, so no state is
//! kept permanently: a restored database goes back, and any session may notify.
//!
//! A copy that could not be read for six seconds refuses no submission.

mod copy;
mod known;
mod notification;
mod turns;

use std::{
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use tidegate::{
    internals::{
        error::{Result, warn_of},
        listener::Subscriber,
        lock::lock,
        store::{GateRow, Store},
    },
    retry_after::RetryAfter,
};
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::{CancellationToken, DropGuard};

use self::copy::GateCopy;
pub(crate) use self::copy::Refusal;
pub(crate) use self::known::Figures;
use self::notification::Notification;

/// The channel of flips.
const GATE_CHANNEL: &str = "tidegate_gate";

/// The re-read interval: after this time at most, and that of a reading, every node has the state of the gates.
pub(crate) const READ_EVERY: Duration = Duration::from_secs(2);

/// The least time between two readings, however many notifications come.
const PAUSE: Duration = Duration::from_millis(100);

/// The time limit of a reading.
const READ_LIMIT: Duration = Duration::from_secs(5);

/// The copy of the gates of one node. Cheap to clone; clones share their copy.
#[derive(Debug, Clone)]
pub struct Gates(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    copy: Mutex<GateCopy>,
    /// Notified when a notification may have been missed.
    read_now: Arc<Notify>,
    /// Ends the reading with the last clone.
    _reading: DropGuard,
}

impl Gates {
    /// The gates of this database, read by a task until the last clone is dropped. For callers within a runtime.
    #[must_use]
    pub fn of(store: Store) -> Self {
        let store = store.with_time_limit(READ_LIMIT);
        Self::read_by(move || {
            let store = store.clone();
            async move { store.gate_copy().await }
        })
    }

    fn read_by<F>(read: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Vec<GateRow>>> + Send + 'static,
    {
        let stop = CancellationToken::new();
        let read_now = Arc::new(Notify::new());
        let gates = Self(Arc::new(Shared {
            copy: Mutex::default(),
            read_now: Arc::clone(&read_now),
            _reading: stop.clone().drop_guard(),
        }));
        let reading = keep_reading(Arc::downgrade(&gates.0), read, read_now);
        tokio::spawn(stop.run_until_cancelled_owned(reading));
        gates
    }

    /// The refusal of a submission without a key by a closed gate. `None` when none of its gates is closed, for an
    /// unknown kind or one that makes its own keys, and while no copy is young enough: then the database decides.
    #[must_use]
    pub fn refuse(&self, kind: &str, submitter: Option<&str>) -> Option<Refusal> {
        lock(&self.0.copy).refuse(kind, submitter, Instant::now(), rand::random)
    }

    /// The Retry-After of a submission of `count` requests that the database has refused until `retry_after`: that or
    /// later, so that the refused submissions of this node come back one after the other.
    #[must_use]
    pub fn in_turn(&self, kind: &str, submitter: Option<&str>, retry_after: RetryAfter, count: usize) -> RetryAfter {
        let mut copy = lock(&self.0.copy);
        let opens_in = Duration::from_secs(retry_after.as_secs());
        let turn = copy.turn(kind, submitter, opens_in, count, Instant::now());
        (opens_in + turn).into()
    }

    /// The gate that the answer to a submission describes: that of the queue that it enters, or, if it was refused and
    /// that one is open, the one that is closed. `None` for an unknown kind, and while no copy is young enough.
    #[must_use]
    pub fn of_submission(&self, kind: &str, submitter: Option<&str>, refused: bool) -> Option<GateRow> {
        lock(&self.0.copy).gate_of(kind, submitter, refused, Instant::now())
    }

    /// Whether a submitter has a quota of its own, by the copy.
    #[must_use]
    pub fn has_quota(&self, submitter: &str) -> bool {
        lock(&self.0.copy).has_quota(submitter)
    }

    /// Every gate, and the age of the copy; `None` before it was first read.
    #[must_use]
    pub fn all(&self) -> Option<(Vec<GateRow>, Duration)> {
        let copy = lock(&self.0.copy);
        let age = copy.age(Instant::now())?;
        Some((copy.gates().cloned().collect(), age))
    }
}

/// Reads the gates repeatedly.
async fn keep_reading<F>(gates: Weak<Shared>, read: impl Fn() -> F, read_now: Arc<Notify>)
where
    F: Future<Output = Result<Vec<GateRow>>> + Send + 'static,
{
    loop {
        let began = Instant::now();
        // A task of its own: its panic fails this reading only.
        let reading = tokio::spawn(tokio::time::timeout(READ_LIMIT, read()));
        match (reading.await, gates.upgrade()) {
            (_, None) => return,
            (Ok(Ok(Ok(rows))), Some(gates)) => lock(&gates.copy).read(rows, began),
            (Ok(Ok(Err(error))), _) => warn_of!(error, "failed to read the gates"),
            (Ok(Err(_)), _) => tracing::warn!("failed to read the gates in time"),
            (Err(error), _) => tracing::error!(%error, "a reading of the gates panicked"),
        }
        tokio::select! {
            () = tokio::time::sleep(READ_EVERY) => {}
            () = read_now.notified() => tokio::time::sleep(PAUSE).await,
        }
    }
}

impl Subscriber for Gates {
    fn channel(&self) -> &'static str {
        GATE_CHANNEL
    }

    fn on_notification(&self, payload: &str) {
        let notification = serde_json::from_str(payload).ok();
        let Some((gate, notification)) = notification.and_then(|n: Notification| Some((n.gate()?, n))) else {
            tracing::debug!(payload, "invalid notification of a gate");
            return;
        };
        if !lock(&self.0.copy).on_notification(&gate, &notification, Instant::now()) {
            tracing::debug!(gate, "notification of a gate that was not read yet");
        }
        // A reading adds the figures that a notification lacks: the hold of an operator, the drain rate.
        self.0.read_now.notify_one();
    }

    fn on_reconnect(&self) {
        self.0.read_now.notify_one();
    }
}

#[cfg(test)]
mod tests;
