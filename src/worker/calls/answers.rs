//! The outcomes of a stage's answers. An `Err` is an outcome that a hedge may improve.

use std::{sync::Mutex, time::Duration};

use crate::{
    lock::lock,
    request::{Request, RequestError},
    stage::{AnyReadiness, AnyTransact, Check, Receipt, Sent},
    store::Retry,
    worker::outcome::{Outcome, caught},
};

/// The failed calls of one hedged request: whether any may have left, and the longest wait that a downstream asked for.
#[derive(Default)]
pub(super) struct Failed(Mutex<(bool, Option<Duration>)>);

impl Failed {
    /// Adds a failed call.
    pub(super) fn note(&self, outcome: &Outcome) {
        let mut noted = lock(&self.0);
        match outcome {
            Outcome::Retry(retry) => {
                noted.0 |= retry.may_have_left;
                noted.1 = noted.1.max(retry.after);
            }
            Outcome::Snooze(snooze) => noted.1 = noted.1.max(snooze.after),
            _ => {}
        }
    }

    /// The failure that stands for all.
    pub(super) fn merge_into(&self, mut outcome: Outcome) -> Outcome {
        let noted = lock(&self.0);
        match &mut outcome {
            Outcome::Retry(retry) => (retry.may_have_left, retry.after) = *noted,
            Outcome::Snooze(snooze) => snooze.after = noted.1,
            _ => {}
        }
        outcome
    }
}

/// Checks once.
pub(super) async fn check(stage: &dyn AnyReadiness, request: &Request) -> Result<Outcome, Outcome> {
    match caught(async { stage.check(request).await }).await {
        Ok(Check::Ready) => Ok(Outcome::Passed),
        Ok(Check::Snooze { after }) => Ok(Outcome::snooze(after, None)),
        Ok(Check::Retry { error, after }) => Err(Outcome::snooze(after, Some(error))),
        Ok(Check::Failed(error)) => Ok(Outcome::CheckFailed(error)),
        Err(panic) => Err(Outcome::CheckFailed(panic)),
    }
}

/// Sends once.
pub(super) async fn send(stage: &dyn AnyTransact, request: &Request) -> Result<Outcome, Outcome> {
    match caught(async { stage.send(request).await }).await {
        Ok(Sent::Receipt(receipt)) => Ok(Outcome::Receipt(receipt)),
        Ok(Sent::Retry {
            error,
            after,
            may_have_left,
        }) => Err(Outcome::Retry(Retry {
            error,
            after,
            may_have_left,
        })),
        Ok(Sent::Rejected(error)) => Ok(Outcome::Rejected(error)),
        Err(panic) => Err(Outcome::retry(panic)),
    }
}

/// Searches for the receipt of an earlier send.
pub(super) async fn find_receipt(stage: &dyn AnyTransact, request: &Request) -> Result<Option<Receipt>, Outcome> {
    let found = caught(async { stage.find_receipt(request).await }).await;
    found
        .and_then(|found| found.map_err(not_known))
        .map_err(Outcome::unsent)
}

/// A refused search for the receipt is no refusal of the request: with the code of its HTTP status it would count as
/// one.
fn not_known(error: RequestError) -> RequestError {
    let throttled = ["http_408", "http_409", "http_425", "http_429"];
    if !error.code.starts_with("http_4") || throttled.contains(&error.code.as_str()) {
        return error;
    }
    let message = format!(
        "the search for the receipt was refused ({}): {}",
        error.code, error.message
    );
    RequestError::new("receipt_not_known", message, true)
}

pub(super) fn timed_out(call: &str, after: Duration) -> RequestError {
    RequestError::new(
        "timeout",
        format!("{call} took longer than {} ms", after.as_millis()),
        true,
    )
}
