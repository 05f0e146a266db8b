//! How often the database was in the way. What callers do wrong does not count.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::StoreError;

const SORTS: [&str; 4] = ["unavailable", "busy", "not_migrated", "other"];

#[derive(Debug, Default)]
pub(super) struct Troubles([AtomicU64; SORTS.len()]);

impl Troubles {
    pub(super) fn note(&self, error: &StoreError) {
        let sort = match error {
            StoreError::Unavailable(_) => 0,
            // A transaction that does not end is the database's trouble, too.
            StoreError::GateBusy(_) => 1,
            StoreError::Database(_) if error.is_transient() => 1,
            StoreError::NotMigrated(_) => 2,
            StoreError::Database(_) => 3,
            _ => return,
        };
        self.0[sort].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        let counts = self.0.each_ref().map(|count| count.load(Ordering::Relaxed));
        SORTS.into_iter().zip(counts)
    }
}
