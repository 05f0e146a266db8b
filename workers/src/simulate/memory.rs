//! The fate of each request, by its idempotency key.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Mutex, MutexGuard, PoisonError},
};

use tidegate::request::RequestId;

/// The result of a request's sends, decided at its first send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Rejected,
    Taken {
        /// Whether a response follows.
        answered: bool,
    },
}

/// Grows by some fifty bytes a request.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<HashMap<RequestId, Fate>>);

impl Memory {
    /// The fate of `id`, `fate` if this is its first send; and whether it was decided by an earlier send.
    pub(super) fn decide(&self, id: RequestId, fate: Fate) -> (Fate, bool) {
        match self.fates().entry(id) {
            Entry::Occupied(known) => (*known.get(), true),
            Entry::Vacant(unknown) => (*unknown.insert(fate), false),
        }
    }

    /// Whether `id` was taken, and if so whether a response follows.
    pub(super) fn taken(&self, id: RequestId) -> Option<bool> {
        match self.fates().get(&id) {
            Some(Fate::Taken { answered }) => Some(*answered),
            Some(Fate::Rejected) | None => None,
        }
    }

    fn fates(&self) -> MutexGuard<'_, HashMap<RequestId, Fate>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
