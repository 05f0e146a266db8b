//! Counts of polls by kind, for the database's statistics.
//!
//! Counts are gathered for some seconds and stored in one statement for all kinds, so that a poll writes nothing. A node that is killed loses the counts that it has not stored.

use std::{collections::HashMap, mem, sync::Arc, time::Duration};

use tidegate::internals::{
    coalescer::{Coalescer, Rounds},
    store::{PollCount, Store},
};
use tokio::sync::SemaphorePermit;

/// How long counts are gathered.
const GATHER: Duration = Duration::from_secs(2);

/// The counts that are not stored yet.
pub(crate) struct Statistics(Arc<Coalescer<Gathering>>);

struct Gathering(Store);

/// By kind. Only kinds that exist are counted, so there are few.
type Counts = HashMap<String, PollCount>;

impl Statistics {
    pub(crate) fn new(store: Store) -> Self {
        Self(Coalescer::new(Gathering(store)))
    }

    /// Counts a request whose end was answered after so many polls, and so long after it.
    pub(crate) fn answered(&self, kind: &str, polls: i64, lateness: Duration) {
        self.0.add((), |counts| {
            let count = counts.entry(kind.to_owned()).or_default();
            count.answered += 1;
            count.polls += polls;
            count.lateness += lateness;
        });
    }
}

impl Rounds for Gathering {
    const NAME: &'static str = "statistics";

    type Key = ();
    type Pending = Counts;
    type Batch = Counts;

    async fn begin(&self) -> Option<SemaphorePermit<'_>> {
        tokio::time::sleep(GATHER).await;
        None
    }

    fn take(&self, counts: &mut Counts) -> Option<Counts> {
        (!counts.is_empty()).then(|| mem::take(counts))
    }

    async fn run(&self, (): &(), counts: Counts) {
        if let Err(error) = self.0.count_polls(&counts).await {
            tracing::debug!(%error, "failed to store poll statistics");
        }
    }
}
