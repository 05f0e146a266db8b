//! What one queue's worker holds, and until when: prolongs leases while calls run, drops calls whose lease is lost.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{task::AbortHandle, time::Instant};
use tokio_util::sync::CancellationToken;

use super::meter::Meter;
use crate::error::warn_of;
use crate::store::{Lease, Store};

/// How long a call runs before the database is asked whether its request still wants it.
const LONG: Duration = Duration::from_secs(1);

/// The leases held, by this process's own monotonic clock: counted from before the claim was asked for, so never
/// longer than the database thinks.
pub(super) struct Leases {
    queue: String,
    length: Duration,
    meter: Meter,
    held: Mutex<HashMap<Lease, Hold>>,
}

struct Hold {
    since: Instant,
    until: Instant,
    /// The database has said that there is nothing more to hold.
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
        Self {
            queue,
            length,
            meter,
            held: Mutex::default(),
        }
    }

    /// How long a lease is.
    pub(super) fn length(&self) -> Duration {
        self.length
    }

    /// Where it is counted what becomes of them.
    pub(super) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Notes a lease that was asked for at `asked_at`.
    pub(super) fn hold(&self, lease: Lease, asked_at: Instant) {
        let until = asked_at + self.length;
        let hold = Hold {
            since: asked_at,
            until,
            gone: false,
            call: None,
        };
        self.table().insert(lease, hold);
    }

    /// Names the call to drop when the lease is lost. A lease that is settled by now is not held any more.
    pub(super) fn abort_with(&self, lease: Lease, call: AbortHandle) {
        if let Some(hold) = self.table().get_mut(&lease) {
            hold.call = Some(call);
        }
    }

    /// Forgets leases that are settled.
    pub(super) fn forget(&self, leases: impl IntoIterator<Item = Lease>) {
        let mut held = self.table();
        for lease in leases {
            held.remove(&lease);
        }
    }

    /// Whether the lease still holds, with the margin.
    pub(super) fn holds(&self, lease: &Lease) -> bool {
        self.table()
            .get(lease)
            .is_some_and(|hold| Instant::now() + self.margin() < hold.until)
    }

    /// The leases whose calls still run.
    pub(super) fn running(&self) -> Vec<Lease> {
        self.table()
            .iter()
            .filter(|(_, hold)| hold.is_running())
            .map(|(lease, _)| *lease)
            .collect()
    }

    /// How many leases are held.
    pub(super) fn count(&self) -> usize {
        self.table().len()
    }

    /// Prolongs and drops until `end`.
    pub(super) async fn keep(self: Arc<Self>, store: Store, end: CancellationToken) {
        let period = (self.length / 10).min(Duration::from_secs(1));
        loop {
            tokio::select! {
                () = end.cancelled() => return,
                () = tokio::time::sleep(period) => {}
            }
            let ageing = self.ageing();
            if !ageing.is_empty() {
                self.prolong(&store, &ageing).await;
            }
            // Those just prolonged are known to be held.
            let long = self.long();
            if !long.is_empty() {
                self.look(&store, &long).await;
            }
            self.drop_lost();
        }
    }

    /// What keeps a call from running on to the last moment of its lease: the keeper's period and its patience.
    fn margin(&self) -> Duration {
        self.length / 6
    }

    /// Leases that have used up a third of their time.
    fn ageing(&self) -> Vec<Lease> {
        let fresh = Instant::now() + self.length * 2 / 3;
        self.table()
            .iter()
            .filter(|(_, hold)| hold.until < fresh)
            .map(|(lease, _)| *lease)
            .collect()
    }

    /// Leases whose calls have run for a while, but for those that are asked to be prolonged.
    fn long(&self) -> Vec<Lease> {
        let now = Instant::now();
        let fresh = now + self.length * 2 / 3;
        self.table()
            .iter()
            .filter(|(_, hold)| hold.since + LONG <= now && hold.until >= fresh && hold.is_running())
            .map(|(lease, _)| *lease)
            .collect()
    }

    /// Looks which of these leases are still held: a request that was cancelled or has ended wants its call no more.
    async fn look(&self, store: &Store, leases: &[Lease]) {
        let asked_at = Instant::now();
        let asked = store.still_held(&self.queue, leases);
        // Whoever does not hear of it goes on until the lease is to be prolonged.
        if let Ok(Ok(held)) = tokio::time::timeout(self.length / 15, asked).await {
            self.note(leases, held, asked_at, None);
        }
    }

    /// Notes which of these leases were held when they were asked for, and that they hold until then.
    fn note(&self, asked: &[Lease], held: Vec<Lease>, asked_at: Instant, until: Option<Instant>) {
        let held: HashSet<_> = held.into_iter().collect();
        let mut table = self.table();
        for lease in asked {
            // Unless it was settled meanwhile.
            let Some(hold) = table.get_mut(lease) else {
                continue;
            };
            if !held.contains(lease) {
                // It has run out, or somebody else has it, or there is nothing more to do for its request.
                hold.until = asked_at;
                hold.gone = true;
            } else if let Some(until) = until {
                hold.until = until;
            }
        }
    }

    async fn prolong(&self, store: &Store, leases: &[Lease]) {
        let asked_at = Instant::now();
        let asked = store.extend(&self.queue, leases, self.length);
        // A database that stalls must not keep the keeper from dropping what is lost.
        let prolonged = match tokio::time::timeout(self.length / 15, asked).await {
            Ok(Ok(prolonged)) => prolonged,
            Ok(Err(error)) => {
                warn_of!(error, queue.name = self.queue, "cannot prolong leases");
                return;
            }
            Err(_) => {
                tracing::warn!(
                    queue.name = self.queue,
                    "the database does not answer; leases are not prolonged"
                );
                return;
            }
        };
        self.note(leases, prolonged, asked_at, Some(asked_at + self.length));
    }

    fn drop_lost(&self) {
        let last = Instant::now() + self.margin();
        self.table().retain(|lease, hold| {
            if hold.until > last {
                return true;
            }
            // A call that has ended is only waiting to be settled: that will be its loss.
            if let Some(call) = hold.call.take().filter(|call| !call.is_finished()) {
                let (name, id) = (&self.queue, lease.id);
                if hold.gone {
                    tracing::info!(
                        queue.name = name,
                        request.id = %id,
                        "its request has ended or is held by another, call dropped"
                    );
                } else {
                    tracing::warn!(
                        queue.name = name,
                        request.id = %id,
                        "lease lost, call dropped"
                    );
                }
                call.abort();
                self.meter.lost(1);
            }
            false
        });
    }

    fn table(&self) -> MutexGuard<'_, HashMap<Lease, Hold>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
