//! The outcomes of a stage's answers. An `Err` is an outcome that a hedge may improve.

use std::{sync::Mutex, time::Duration};

use crate::{
    lock::lock,
    request::{Request, RequestError},
    stage::{AnyReadiness, AnyTransact, Check, Found, Sent},
    store::{Outcome, Retry},
    worker::outcome::caught,
};

/// The failed calls of one hedged request.
#[derive(Default)]
pub(super) struct Failed(Mutex<Noted>);

#[derive(Default)]
struct Noted {
    /// Whether any may have left.
    may_have_left: bool,
    /// The longest wait that a downstream asked for.
    after: Option<Duration>,
    /// The first refusal of a send.
    refusal: Option<RequestError>,
}

impl Failed {
    /// Adds a failed call.
    pub(super) fn note(&self, outcome: &Outcome) {
        let mut noted = lock(&self.0);
        match outcome {
            Outcome::Retry(retry) => {
                noted.may_have_left |= retry.may_have_left;
                noted.after = noted.after.max(retry.after);
            }
            Outcome::Snoozed(snooze) => noted.after = noted.after.max(snooze.after),
            Outcome::Rejected(error) => {
                noted.refusal.get_or_insert_with(|| error.clone());
            }
            _ => {}
        }
    }

    /// Whether the downstream has refused a send.
    pub(super) fn have_refused(&self) -> bool {
        lock(&self.0).refusal.is_some()
    }

    /// The outcome that stands for all: a refusal is an answer.
    pub(super) fn merge(&self, mut outcome: Outcome) -> Result<Outcome, Outcome> {
        let mut noted = lock(&self.0);
        if let Some(error) = noted.refusal.take() {
            return Ok(Outcome::Rejected(error));
        }
        match &mut outcome {
            Outcome::Retry(retry) => (retry.may_have_left, retry.after) = (noted.may_have_left, noted.after),
            Outcome::Snoozed(snooze) => snooze.after = noted.after,
            _ => {}
        }
        Err(outcome)
    }
}

/// The answer of one of several calls: a refused send waits for the others, which may have been executed.
pub(super) fn of_hedged(answer: Result<Outcome, Outcome>) -> Result<Outcome, Outcome> {
    match answer {
        Ok(refusal @ Outcome::Rejected(_)) => Err(refusal),
        other => other,
    }
}

/// Checks once.
pub(super) async fn check(stage: &dyn AnyReadiness, request: &Request) -> Result<Outcome, Outcome> {
    match caught(async { stage.check(request).await }).await {
        Ok(Check::Ready) => Ok(Outcome::Passed),
        Ok(Check::Snooze { after }) => Ok(Outcome::snoozed(after, None)),
        Ok(Check::Retry { error, after }) => Err(Outcome::snoozed(after, Some(error))),
        Ok(Check::Failed(error)) => Ok(Outcome::CheckFailed(error)),
        Err(panic) => Err(Outcome::CheckFailed(panic)),
    }
}

/// Sends once.
pub(super) async fn send(stage: &dyn AnyTransact, request: &Request) -> Result<Outcome, Outcome> {
    match caught(async { stage.send(request).await }).await {
        Ok(Sent::Receipt(receipt)) => Ok(Outcome::Receipt(receipt)),
        Ok(Sent::Retry { error, after, may_have_left }) => Err(Outcome::Retry(Retry { error, after, may_have_left })),
        Ok(Sent::Rejected(error)) => Ok(Outcome::Rejected(error)),
        Err(panic) => Err(Outcome::retry(panic)),
    }
}

/// Searches for the receipt of an earlier send.
pub(super) async fn find_receipt(stage: &dyn AnyTransact, request: &Request) -> Result<Found, Outcome> {
    let found = caught(async { stage.find_receipt(request).await }).await;
    found.and_then(|found| found).map_err(|error| match error.code.as_str() {
        // It was found, and would be as long the next time.
        "unstorable_response" => Outcome::Rejected(error),
        _ => Outcome::unsent(not_known(error)),
    })
}

/// A refused search for the receipt is no refusal of the request: with the code of its HTTP status it would count as
/// one.
fn not_known(error: RequestError) -> RequestError {
    let throttled = ["http_408", "http_409", "http_425", "http_429"];
    if !error.code.starts_with("http_4") || throttled.contains(&error.code.as_str()) {
        return error;
    }
    let message = format!("the search for the receipt was refused ({}): {}", error.code, error.message);
    RequestError::new("receipt_not_known", message, true)
}
