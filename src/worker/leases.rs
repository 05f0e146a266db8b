//! What one queue's worker holds, and until when: prolongs leases while calls run, drops calls whose lease is lost.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{task::AbortHandle, time::Instant};
use tokio_util::sync::CancellationToken;

use super::meter::Meter;
use crate::store::{Lease, Store};

/// The leases held, by this process's own monotonic clock: counted from before the claim was asked for, so never
/// longer than the database thinks.
pub(super) struct Leases {
    queue: String,
    length: Duration,
    meter: Meter,
    held: Mutex<HashMap<Lease, Hold>>,
}

struct Hold {
    until: Instant,
    call: Option<AbortHandle>,
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

    /// Where it is counted what becomes of them.
    pub(super) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Notes a lease that was asked for at `asked_at`.
    pub(super) fn hold(&self, lease: Lease, asked_at: Instant) {
        let until = asked_at + self.length;
        self.table().insert(lease, Hold { until, call: None });
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
            .filter(|(_, hold)| hold.call.as_ref().is_some_and(|call| !call.is_finished()))
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

    async fn prolong(&self, store: &Store, leases: &[Lease]) {
        let asked_at = Instant::now();
        let asked = store.extend(&self.queue, leases, self.length);
        // A database that stalls must not keep the keeper from dropping what is lost.
        let prolonged = match tokio::time::timeout(self.length / 15, asked).await {
            Ok(Ok(prolonged)) => prolonged,
            Ok(Err(error)) => {
                tracing::warn!(queue.name = self.queue, %error, "cannot prolong leases");
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
        let mut held = self.table();
        for lease in &prolonged {
            if let Some(hold) = held.get_mut(lease) {
                hold.until = asked_at + self.length;
            }
        }
        let prolonged: HashSet<_> = prolonged.into_iter().collect();
        // What was not prolonged has run out, or somebody else has it; unless it was settled meanwhile.
        for lease in leases {
            if !prolonged.contains(lease)
                && let Some(hold) = held.get_mut(lease)
            {
                hold.until = asked_at;
            }
        }
    }

    fn drop_lost(&self) {
        let last = Instant::now() + self.margin();
        self.table().retain(|lease, hold| {
            if hold.until > last {
                return true;
            }
            // A call that has ended is only waiting to be settled: that will be its loss.
            if let Some(call) = hold.call.take().filter(|call| !call.is_finished()) {
                tracing::warn!(
                    queue.name = self.queue,
                    lease.msg_id = lease.msg_id,
                    "lease lost, call dropped"
                );
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
