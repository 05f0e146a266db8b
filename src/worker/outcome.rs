//! What comes of a stage's call, and the reason why it could not be settled.

use std::{panic::AssertUnwindSafe, sync::Arc};

use futures_util::FutureExt;

use crate::{
    error::StoreError,
    request::{Request, RequestError},
    stage::{AnyEffect, Receipt},
    store::{Lease, Outcome},
};

/// The names of outcomes in metrics.
pub(super) const WORDS: [&str; 7] = ["passed", "snoozed", "check_failed", "receipt", "retry", "rejected", "released"];

/// What a call reports to its queue's settler.
pub(super) enum Report {
    Outcome(Outcome),
    Effect(WithEffect),
    /// Its lease ran out before the call began.
    Lost,
}

impl Report {
    /// Its name in metrics, one of [`WORDS`].
    pub(super) const fn word(&self) -> &'static str {
        match self {
            Self::Outcome(Outcome::Passed) => "passed",
            Self::Outcome(Outcome::Snoozed(_)) => "snoozed",
            Self::Outcome(Outcome::CheckFailed(_)) => "check_failed",
            Self::Outcome(Outcome::Receipt(_)) | Self::Effect(_) => "receipt",
            Self::Outcome(Outcome::Retry(_)) => "retry",
            Self::Outcome(Outcome::Rejected(_)) => "rejected",
            Self::Outcome(Outcome::Released) | Self::Lost => "released",
        }
    }
}

impl From<Outcome> for Report {
    fn from(outcome: Outcome) -> Self {
        Self::Outcome(outcome)
    }
}

/// Whether the stage itself has timed out.
pub(super) fn is_timeout(outcome: &Outcome) -> bool {
    outcome.error().is_some_and(|error| error.code == "timeout")
}

/// A receipt that is settled only together with its effect.
pub(super) struct WithEffect {
    pub(super) receipt: Receipt,
    pub(super) stage: Arc<dyn AnyEffect>,
    pub(super) request: Box<Request>,
}

/// Why a batch was not settled.
pub(super) struct Unsettled {
    pub(super) error: StoreError,
    /// Whether the receipts were settled, and an effect has failed.
    pub(super) of_effect: bool,
    /// The lease of the effect that failed, when that is known.
    pub(super) culprit: Option<Lease>,
    /// How many effects to write in one transaction instead, when all of them took too long.
    pub(super) fits: Option<usize>,
}

impl From<StoreError> for Unsettled {
    fn from(error: StoreError) -> Self {
        Self { error, of_effect: false, culprit: None, fits: None }
    }
}

/// The result of a stage's call; a panic is an error like any other.
pub(super) async fn caught<T>(call: impl Future<Output = T>) -> Result<T, RequestError> {
    AssertUnwindSafe(call).catch_unwind().await.map_err(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref().map(String::as_str));
        let message = format!("the stage panicked: {}", text.unwrap_or("no message"));
        RequestError::new("stage_panicked", message, true)
    })
}
