//! How many wrong keys a node takes in a minute.

use std::{sync::Mutex, time::Duration};

use tidegate::internals::lock::lock;
use tokio::time::Instant;

use super::fault::Fault;

/// Counts wrong keys: a flood of them must not fill the log, and a person types a key more slowly.
#[derive(Default)]
pub(super) struct Failures(Mutex<Vec<Instant>>);

impl Failures {
    /// Wrong keys in a minute.
    const MOST: usize = 20;
    const WINDOW: Duration = Duration::from_secs(60);

    pub(super) fn admit(&self) -> Result<(), Fault> {
        let mut failures = lock(&self.0);
        failures.retain(|at| at.elapsed() < Self::WINDOW);
        if failures.len() < Self::MOST { Ok(()) } else { Err(Fault::Hasty) }
    }

    pub(super) fn note(&self) {
        lock(&self.0).push(Instant::now());
    }
}
