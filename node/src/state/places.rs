//! How many calls are under way at once.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Permits for the calls that are under way.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    free: Arc<Semaphore>,
    most: usize,
}

impl Places {
    pub(crate) fn new(places: usize) -> Self {
        let most = places.min(Semaphore::MAX_PERMITS);
        Self { free: Arc::new(Semaphore::new(most)), most }
    }

    /// A permit, if one is free.
    pub(crate) fn take(&self) -> Option<Permit> {
        Some(Permit { _taken: Arc::clone(&self.free).try_acquire_owned().ok()? })
    }

    /// How many permits are taken, and how many there are.
    pub(crate) fn taken(&self) -> (usize, usize) {
        let free = self.free.available_permits();
        (self.most.saturating_sub(free), self.most)
    }
}

/// A place among the calls that are under way, until it is dropped.
#[derive(Debug)]
#[must_use = "the place is free again when this is dropped"]
pub struct Permit {
    _taken: OwnedSemaphorePermit,
}
