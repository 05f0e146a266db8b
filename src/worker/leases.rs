//! The leases of one queue's worker: extends them while calls run, drops calls whose lease is lost.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{task::AbortHandle, time::Instant};
use tokio_util::sync::CancellationToken;

use super::meter::Meter;
use crate::{
    error::{StoreError, warn_of},
    lock::lock,
    store::{Lease, Store},
};

/// How long a call runs before the database is asked whether its lease is still held.
const LONG: Duration = Duration::from_secs(1);

/// The leases held, by this process's own monotonic clock: counted from before the claim, so never longer than
/// by the database's clock.
pub(super) struct Leases {
    queue: String,
    pub(super) length: Duration,
    /// The counters of the queue.
    pub(super) meter: Meter,
    held: Mutex<HashMap<Lease, Hold>>,
}

struct Hold {
    since: Instant,
    until: Instant,
    /// Whether the database has answered that the lease is not held any more.
    gone: bool,
    call: Option<AbortHandle>,
}

impl Hold {
    fn is_running(&self) -> bool {
        self.call.as_ref().is_some_and(|call| !call.is_finished())
    }
}

impl Leases {
    pub(super) fn new(queue: String, length: Duration, meter: Meter) -> Self {
        Self { queue, length, meter, held: Mutex::default() }
    }

    /// Adds a lease whose claim was sent at `asked_at`.
    pub(super) fn hold(&self, lease: Lease, asked_at: Instant) {
        let hold = Hold { since: asked_at, until: asked_at + self.length, gone: false, call: None };
        lock(&self.held).insert(lease, hold);
    }

    /// Sets the call to drop when the lease is lost. A lease that is settled by now is not held any more.
    pub(super) fn abort_with(&self, lease: Lease, call: AbortHandle) {
        if let Some(hold) = lock(&self.held).get_mut(&lease) {
            hold.call = Some(call);
        }
    }

    /// Forgets leases that are settled.
    pub(super) fn forget(&self, leases: impl IntoIterator<Item = Lease>) {
        let mut held = lock(&self.held);
        for lease in leases {
            held.remove(&lease);
        }
    }

    /// Whether the lease still holds, with the margin.
    pub(super) fn holds(&self, lease: &Lease) -> bool {
        lock(&self.held).get(lease).is_some_and(|hold| Instant::now() + self.margin() < hold.until)
    }

    /// The leases whose calls still run.
    pub(super) fn running(&self) -> Vec<Lease> {
        self.those(Hold::is_running)
    }

    /// How many leases are held.
    pub(super) fn count(&self) -> usize {
        lock(&self.held).len()
    }

    /// Extends leases and drops calls until `end`.
    pub(super) async fn extend_until(self: Arc<Self>, store: Store, end: CancellationToken) {
        let period = (self.length / 10).min(Duration::from_secs(1));
        while end.run_until_cancelled(tokio::time::sleep(period)).await.is_some() {
            // Leases that have used up a third of their time.
            let fresh = Instant::now() + self.length * 2 / 3;
            let ageing = self.those(|hold| hold.until < fresh);
            if !ageing.is_empty() {
                let until = Instant::now() + self.length;
                let extended = store.extend(&self.queue, &ageing, self.length);
                self.confirm(&ageing, extended, Some(until)).await;
            }
            // An extended lease is known to be held.
            let now = Instant::now();
            let fresh = now + self.length * 2 / 3;
            let long = self.those(|hold| hold.since + LONG <= now && hold.until >= fresh && hold.is_running());
            if !long.is_empty() {
                self.confirm(&long, store.still_held(&self.queue, &long), None).await;
            }
            self.drop_lost();
        }
    }

    /// The time before the end of a lease at which its call is dropped: the period of extensions and their time limit.
    fn margin(&self) -> Duration {
        self.length / 6
    }

    /// The leases whose hold meets a condition.
    fn those(&self, condition: impl Fn(&Hold) -> bool) -> Vec<Lease> {
        let table = lock(&self.held);
        let those = table.iter().filter(|(_, hold)| condition(hold));
        those.map(|(lease, _)| *lease).collect()
    }

    /// Marks those leases as lost that the answer of the database does not name; the others hold until `until`, if
    /// given. A request that was cancelled or has ended has lost its lease. Without an answer all of them stay as they
    /// are.
    async fn confirm(
        &self,
        leases: &[Lease],
        asked: impl Future<Output = Result<Vec<Lease>, StoreError>>,
        until: Option<Instant>,
    ) {
        let asked_at = Instant::now();
        // A database that stalls must not delay the drop of lost calls.
        let held: HashSet<_> = match tokio::time::timeout(self.length / 15, asked).await {
            Ok(Ok(held)) => held.into_iter().collect(),
            Ok(Err(error)) => {
                warn_of!(error, queue.name = self.queue, "failed to extend or to check leases");
                return;
            }
            Err(_) => {
                tracing::warn!(queue.name = self.queue, "failed to extend or to check leases: no answer in time");
                return;
            }
        };
        let mut table = lock(&self.held);
        for lease in leases {
            match table.get_mut(lease) {
                Some(hold) if !held.contains(lease) => (hold.until, hold.gone) = (asked_at, true),
                Some(hold) => hold.until = until.unwrap_or(hold.until),
                // It was settled meanwhile.
                None => {}
            }
        }
    }

    fn drop_lost(&self) {
        let last = Instant::now() + self.margin();
        lock(&self.held).retain(|lease, hold| {
            if hold.until > last {
                return true;
            }
            // The settle of a call that has ended counts its loss.
            if let Some(call) = hold.call.take().filter(|call| !call.is_finished()) {
                let (name, id) = (&self.queue, lease.id);
                if hold.gone {
                    tracing::info!(queue.name = name, request.id = %id, "the request ended or was taken, call dropped");
                } else {
                    tracing::warn!(queue.name = name, request.id = %id, "lease lost, call dropped");
                }
                call.abort();
                self.meter.lost(1);
            }
            false
        });
    }
}
