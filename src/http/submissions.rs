//! How many submissions this node has let in, and how many of them were duplicates.
//!
//! Counted here and added to the database a moment later, all kinds in one statement: a duplicate stays a read. What a node
//! that is killed has counted in that moment is lost; these are statistics.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use crate::store::{Store, SubmissionCount};

/// How long counts are gathered.
const GATHER: Duration = Duration::from_secs(2);

/// The submissions that this node has let in. Clones count together.
#[derive(Clone)]
pub(super) struct Submissions(Arc<Shared>);

struct Shared {
    store: Store,
    /// Since the last that was stored. Of kinds that there are, so there are few.
    by_kind: Mutex<HashMap<String, SubmissionCount>>,
}

impl Submissions {
    pub(super) fn new(store: Store) -> Self {
        Self(Arc::new(Shared {
            store,
            by_kind: Mutex::default(),
        }))
    }

    /// Counts a submission that was accepted or replayed.
    pub(super) fn count(&self, kind: &str, replayed: bool) {
        let mut by_kind = self.by_kind();
        let first = by_kind.is_empty();
        if let Some(count) = by_kind.get_mut(kind) {
            count.add(replayed);
        } else {
            by_kind.entry(kind.to_owned()).or_default().add(replayed);
        }
        drop(by_kind);

        if first {
            tokio::spawn(self.clone().store_soon());
        }
    }

    async fn store_soon(self) {
        tokio::time::sleep(GATHER).await;
        let gathered = std::mem::take(&mut *self.by_kind());
        if let Err(error) = self.0.store.count_submissions(&gathered).await {
            tracing::debug!(%error, "submissions were counted in vain");
        }
    }

    fn by_kind(&self) -> MutexGuard<'_, HashMap<String, SubmissionCount>> {
        // Counts are whole whatever happened to who held the lock.
        let by_kind = self.0.by_kind.lock();
        by_kind.unwrap_or_else(PoisonError::into_inner)
    }
}

impl SubmissionCount {
    fn add(&mut self, replayed: bool) {
        self.submitted = self.submitted.saturating_add(1);
        self.replayed = self.replayed.saturating_add(u32::from(replayed));
    }
}
