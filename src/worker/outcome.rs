//! What the call of a stage comes to, and why that could not be settled.

use std::{any::Any, sync::Arc};

use crate::{
    error::StoreError,
    request::{Request, RequestError},
    stage::{AnyEffect, Receipt},
    store::{Lease, Retry, Snooze},
};

/// The words for what outcomes say, in metrics.
pub(super) const WORDS: [&str; 7] = [
    "passed",
    "snoozed",
    "check_failed",
    "receipt",
    "retry",
    "rejected",
    "released",
];

/// What a call said.
pub(super) enum Outcome {
    Passed,
    Snooze(Snooze),
    CheckFailed(RequestError),
    /// With what is to be written when it is settled, if anything.
    Receipt(Receipt, Option<ToWrite>),
    Retry(Retry),
    Rejected(RequestError),
    Release,
    /// Its lease ran out before the call began.
    Lost,
}

impl Outcome {
    /// Another attempt, when the policy says so; the request may have left.
    pub(super) fn retry(error: RequestError) -> Self {
        Self::Retry(Retry {
            error,
            after: None,
            may_have_left: true,
        })
    }

    /// Another attempt, after one that has not come as far as to send.
    pub(super) fn unsent(error: RequestError) -> Self {
        Self::Retry(Retry {
            error,
            after: None,
            may_have_left: false,
        })
    }

    /// Whether the stage itself has given up waiting for an answer.
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

/// What writes the effect of one request's receipt.
pub(super) struct ToWrite {
    pub(super) stage: Arc<dyn AnyEffect>,
    pub(super) request: Request,
}

/// Why a batch was not settled.
pub(super) struct Unsettled {
    pub(super) error: StoreError,
    /// Whether the settle got through, and it is the effects of receipts that failed.
    pub(super) of_effect: bool,
    /// Whose effect it is, when that is known.
    pub(super) culprit: Option<Lease>,
    /// How many effects to write at once instead, when all of them together took too long.
    pub(super) fits: Option<usize>,
}

impl From<StoreError> for Unsettled {
    fn from(error: StoreError) -> Self {
        Self {
            error,
            of_effect: false,
            culprit: None,
            fits: None,
        }
    }
}

/// What a panic of a stage says.
pub(super) fn panicked(panic: &(dyn Any + Send)) -> RequestError {
    let message = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned());
    RequestError::new("stage_panicked", format!("the stage panicked: {message}"), true)
}
