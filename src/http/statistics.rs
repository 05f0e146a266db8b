//! Counts of polls and submissions by kind, for the database's statistics.
//!
//! Counts are gathered for some seconds and stored in one statement for all kinds, so that a poll or a replay writes
//! nothing. A node that is killed loses the counts that it has not stored.

use std::{collections::HashMap, mem, sync::Arc, time::Duration};

use tokio::sync::SemaphorePermit;

use crate::{
    coalescer::{Coalescer, Rounds},
    store::{PollCount, Store, SubmissionCount},
};

/// How long counts are gathered.
const GATHER: Duration = Duration::from_secs(2);

/// The counts that are not stored yet.
pub(super) struct Statistics(Arc<Coalescer<Gathering>>);

struct Gathering(Store);

/// By kind. Only kinds that exist are counted, so there are few.
#[derive(Default)]
struct Counts {
    polls: HashMap<String, PollCount>,
    submissions: HashMap<String, SubmissionCount>,
}

impl Statistics {
    pub(super) fn new(store: Store) -> Self {
        Self(Coalescer::new(Gathering(store)))
    }

    /// Counts a request whose end was answered after so many polls, and so long after it.
    pub(super) fn answered(&self, kind: &str, polls: u64, lateness: Duration) {
        self.0.add((), |counts| {
            let count = counts.polls.entry(kind.to_owned()).or_default();
            count.answered += 1;
            count.polls += polls;
            count.lateness += lateness;
        });
    }

    /// Counts a submission that was accepted or replayed.
    pub(super) fn submitted(&self, kind: &str, replayed: bool) {
        self.0.add((), |counts| {
            let count = counts.submissions.entry(kind.to_owned()).or_default();
            count.submitted = count.submitted.saturating_add(1);
            count.replayed = count.replayed.saturating_add(replayed.into());
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
        let Counts { polls, submissions } = counts;
        (!polls.is_empty() || !submissions.is_empty()).then(|| mem::take(counts))
    }

    async fn run(&self, (): &(), Counts { polls, submissions }: Counts) {
        if !polls.is_empty()
            && let Err(error) = self.0.count_polls(&polls).await
        {
            tracing::debug!(%error, "failed to store poll statistics");
        }
        if !submissions.is_empty()
            && let Err(error) = self.0.count_submissions(&submissions).await
        {
            tracing::debug!(%error, "failed to store submission statistics");
        }
    }
}
