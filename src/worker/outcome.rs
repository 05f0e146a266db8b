//! The outcome of a stage's call, and the reason why it could not be settled.

use std::{borrow::Borrow, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;

use crate::{
    error::StoreError,
    request::{Request, RequestError},
    stage::{AnyEffect, Receipt},
    store::{Lease, Retry, Snooze},
};

/// The names of outcomes in metrics.
pub(super) const WORDS: [&str; 7] = ["passed", "snoozed", "check_failed", "receipt", "retry", "rejected", "released"];

/// The outcome of a call.
pub(super) enum Outcome {
    Passed,
    Snooze(Snooze),
    CheckFailed(RequestError),
    Receipt(Receipt),
    Effect(WithEffect),
    Retry(Retry),
    Rejected(RequestError),
    Released,
    /// Its lease ran out before the call began.
    Lost,
}

impl Outcome {
    /// Its name in metrics, one of [`WORDS`].
    pub(super) const fn word(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Snooze(_) => "snoozed",
            Self::CheckFailed(_) => "check_failed",
            Self::Receipt(_) | Self::Effect(_) => "receipt",
            Self::Retry(_) => "retry",
            Self::Rejected(_) => "rejected",
            Self::Released | Self::Lost => "released",
        }
    }

    /// Another check, when the policy allows it.
    pub(super) fn snooze(after: Option<Duration>, error: Option<RequestError>) -> Self {
        Self::Snooze(Snooze { after, error })
    }

    /// Another attempt, when the policy allows it; the request may have left.
    pub(super) fn retry(error: RequestError) -> Self {
        Self::Retry(Retry { error, after: None, may_have_left: true })
    }

    /// Another attempt, after one that has not sent.
    pub(super) fn unsent(error: RequestError) -> Self {
        Self::Retry(Retry { error, after: None, may_have_left: false })
    }

    /// Whether the stage itself has timed out.
    pub(super) fn is_timeout(&self) -> bool {
        let error = match self {
            Self::Retry(retry) => Some(&retry.error),
            Self::Snooze(snooze) => snooze.error.as_ref(),
            Self::CheckFailed(error) | Self::Rejected(error) => Some(error),
            _ => None,
        };
        error.is_some_and(|error| error.code == "timeout")
    }
}

/// A receipt that is settled only together with its effect.
pub(super) struct WithEffect {
    pub(super) receipt: Receipt,
    pub(super) stage: Arc<dyn AnyEffect>,
    pub(super) request: Box<Request>,
}

impl Borrow<Receipt> for &WithEffect {
    fn borrow(&self) -> &Receipt {
        &self.receipt
    }
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
