//! Places at which a test ends the process at once, as a lost machine would.
//!
//! `TIDEGATE_EVM_FAILPOINT` names one of them, and how often it is reached before it ends the process: `committed:3`.

use std::{
    env, process,
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

/// A step of an order's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Its transaction is signed and inserted, but not committed.
    Signed,
    /// It is committed, but not broadcast.
    Committed,
    /// It is broadcast, but that is not recorded.
    Sent,
    /// Its receipt is recorded, but the request is not settled.
    Mined,
}

static WANTED: LazyLock<Option<(String, u64)>> = LazyLock::new(|| {
    let wanted = env::var("TIDEGATE_EVM_FAILPOINT").ok()?;
    let (step, times) = wanted.split_once(':').unwrap_or((&wanted, "1"));
    Some((step.to_owned(), times.parse().ok()?))
});

static REACHED: AtomicU64 = AtomicU64::new(0);

/// Ends the process if a test wants it to end here.
pub(crate) fn reached(step: Step) {
    let Some((wanted, times)) = WANTED.as_ref() else { return };
    let name = match step {
        Step::Signed => "signed",
        Step::Committed => "committed",
        Step::Sent => "sent",
        Step::Mined => "mined",
    };
    if name == wanted && REACHED.fetch_add(1, Ordering::Relaxed) + 1 == *times {
        process::abort();
    }
}
