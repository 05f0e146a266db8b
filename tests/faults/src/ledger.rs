//! The promises and answers that callers got, kept by the callers.

use std::sync::{Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

/// An answer that promised a request.
#[derive(Debug, Clone)]
pub struct Promise {
    /// Its job id.
    pub id: Uuid,
    /// The kind it was submitted as.
    pub kind: &'static str,
    /// Which submission it is, as its payload says.
    pub mark: String,
    /// Whether it was submitted under an idempotency key, which is then its mark.
    pub keyed: bool,
    /// Whether it named a URL for its end.
    pub calls_back: bool,
    /// Which way: `http` or `sql`.
    pub way: &'static str,
}

/// A later answer to a caller about a request.
#[derive(Debug, Clone)]
pub struct Told {
    /// The request.
    pub id: Uuid,
    /// `completed`, `timed_out`, `failure`, `cancelled`, or `unknown` for an answer that there is no such request.
    pub state: String,
    /// When the answer was there, in microseconds of Unix time.
    pub at_us: i64,
    /// Whether it was executed: `no`, `yes` or `unknown`.
    pub executed: Option<String>,
    /// Whether its error is retryable.
    pub retryable: bool,
}

/// A cancel that was answered.
#[derive(Debug, Clone)]
pub struct Cancel {
    /// The request.
    pub id: Uuid,
    /// The status of the answer: 200 cancelled, 202 it is being sent, 409 it is too late.
    pub status: u16,
    /// When the answer was there, in microseconds of Unix time.
    pub at_us: i64,
}

/// The word of an operator about an unresolved request. The call may have failed.
#[derive(Debug, Clone)]
pub struct Resolution {
    /// The request.
    pub id: Uuid,
    /// Whether the downstream had executed it, by its log.
    pub executed: bool,
    /// When the log was read, in microseconds of Unix time.
    pub at_us: i64,
}

/// All of it.
#[derive(Debug, Default, Clone)]
pub struct Entries {
    /// Each 202, and each row of an accepted submission by SQL.
    pub promises: Vec<Promise>,
    /// When each was there, in microseconds of Unix time.
    pub promised_us: Vec<i64>,
    /// Each end that a caller has read.
    pub told: Vec<Told>,
    /// Each answered cancel.
    pub cancels: Vec<Cancel>,
    /// Each word of an operator.
    pub resolutions: Vec<Resolution>,
    /// Submissions whose caller got no answer and, for want of a key, could not ask again.
    pub unanswered: u64,
    /// Answers that sent the caller away for a time (429, 503).
    pub put_off: u64,
    /// Submissions repeated under their key.
    pub repeated: u64,
    /// Nonsense that was sent on purpose.
    pub nonsense: u64,
}

/// Shared by all callers.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<Entries>);

impl Ledger {
    /// Everything so far, to look at and to add to.
    pub fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request that was promised, picked by a number.
    #[must_use]
    pub fn pick(&self, number: usize) -> Option<Promise> {
        let entries = self.entries();
        let count = entries.promises.len();
        // The newest have not ended yet.
        let recent = count.min(2_000);
        (count > 0).then(|| entries.promises[count - 1 - number % recent].clone())
    }
}
