//! Locks of values that stay whole when a holder of the lock panics.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, also after a panic of an earlier holder.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
