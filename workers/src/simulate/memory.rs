//! What became of each request, by its idempotency key.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Mutex, MutexGuard, PoisonError},
};

use tidegate::request::RequestId;

/// A request's fate, decided at its first send.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Rejected,
    Taken { answered: bool },
}

/// What a send finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taking {
    /// The request is refused, as it was before if it was sent before.
    Rejected,
    Taken {
        /// Whether it was taken by an earlier send.
        again: bool,
        /// Whether it is ever answered.
        answered: bool,
    },
}

/// Grows by some fifty bytes a request.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<HashMap<RequestId, Fate>>);

impl Memory {
    /// Decides the fate of `id`, or finds it decided.
    pub(super) fn take(&self, id: RequestId, rejected: bool, answered: bool) -> Taking {
        match self.fates().entry(id) {
            Entry::Occupied(known) => match *known.get() {
                Fate::Rejected => Taking::Rejected,
                Fate::Taken { answered } => Taking::Taken { again: true, answered },
            },
            Entry::Vacant(unknown) if rejected => {
                unknown.insert(Fate::Rejected);
                Taking::Rejected
            }
            Entry::Vacant(unknown) => {
                unknown.insert(Fate::Taken { answered });
                Taking::Taken { again: false, answered }
            }
        }
    }

    /// Whether `id` was taken, and if so whether it is ever answered.
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
