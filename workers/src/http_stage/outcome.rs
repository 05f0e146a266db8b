//! The outcome of a stage by the service's answer, or by its absence.

use std::time::Duration;

use reqwest::StatusCode;
use tidegate::{
    request::RequestError,
    stage::{Check, Found, Sent},
};
use tidegate_node::webhook::retry_after;

use super::{
    Answers,
    answer::Answer,
    receipt::{UNSTORABLE, read_problem},
    service::{NoAnswer, is_of_credential},
};

type Called = Result<Answer, NoAnswer>;

/// The outcome of a readiness check.
pub(super) fn check(called: Called) -> Check {
    match called {
        Ok(answer) if answer.status.is_success() => Check::Ready,
        Ok(answer) if is_final(answer.status) => Check::Failed(read_problem(&answer, "not_possible")),
        // A server error is no refusal: the service itself fails. So does the worker whose credential is refused.
        Ok(answer) if answer.status.is_server_error() || is_of_credential(answer.status) => {
            Check::Retry { error: unexpected(&answer), after: retry_after(&answer.headers) }
        }
        Ok(answer) => Check::Snooze { after: retry_after(&answer.headers) },
        Err(no_answer) => Check::Retry { error: no_answer_error(no_answer), after: None },
    }
}

/// The outcome of a send to a service with these answers.
pub(super) fn sent(called: Called, answers: &Answers) -> Sent {
    let retry = |error, after, may_have_left| Sent::Retry { error, after, may_have_left };
    match called {
        Ok(answer) if answer.status.is_success() => match answers.read_receipt(&answer) {
            Ok(receipt) => Sent::Receipt(receipt),
            // It would be as long the next time.
            Err(error) if error.code == UNSTORABLE => Sent::Rejected(error),
            // The service took it, but without the receipt its response cannot be matched: the next attempt searches
            // for the receipt again.
            Err(error) => retry(error, None, true),
        },
        Ok(answer) if is_final(answer.status) => Sent::Rejected(read_problem(&answer, "rejected")),
        Ok(answer) => {
            let after = retry_after(&answer.headers);
            let may_have_left = !was_refused_unread(answer.status, after);
            retry(unexpected(&answer), after, may_have_left)
        }
        // Without a connection, nothing can have left.
        Err(no_answer) => {
            let may_have_left = !matches!(no_answer, NoAnswer::NotConnected(_));
            retry(no_answer_error(no_answer), None, may_have_left)
        }
    }
}

/// The receipt of an earlier send.
pub(super) fn found(called: Called, answers: &Answers) -> Result<Found, RequestError> {
    match called.map_err(no_answer_error)? {
        answer if answer.status.is_success() => answers.read_receipt(&answer).map(Found::Receipt),
        answer if answer.status == StatusCode::NOT_FOUND => Ok(Found::Nothing),
        answer if answer.status == StatusCode::GONE => Ok(Found::Never),
        answer => Err(unexpected(&answer)),
    }
}

/// Whether the same request would be refused again.
///
/// 409 is not final: services that deduplicate answer it while an earlier send of the same key still runs. Nor are
/// redirects, which are not followed: a wrong URL in the configuration must not end requests.
fn is_final(status: StatusCode) -> bool {
    status.is_client_error() && !matches!(status.as_u16(), 408 | 409 | 425 | 429) && !is_of_credential(status)
}

/// Whether the status means that the service did not begin with the request.
///
/// 401, 403, 425 and 429 refuse before any work. So does a 503 with a `Retry-After`; without one, it may come from a
/// proxy that lost the service during the call. 408 is used for both.
fn was_refused_unread(status: StatusCode, after: Option<Duration>) -> bool {
    match status.as_u16() {
        401 | 403 | 425 | 429 => true,
        503 => after.is_some(),
        _ => false,
    }
}

fn no_answer_error(no_answer: NoAnswer) -> RequestError {
    let (code, message) = match no_answer {
        NoAnswer::NotConnected(None) => ("connect", "the service could not be reached".to_owned()),
        NoAnswer::NotConnected(Some(limit)) => ("connect", format!("the service could not be reached: cut by {limit}")),
        NoAnswer::TooSlow(limit) => ("timeout", format!("the service did not answer in time: cut by {limit}")),
        NoAnswer::Broken => ("connection_lost", "the connection closed without an answer".to_owned()),
    };
    RequestError::new(code, message, true)
}

fn unexpected(answer: &Answer) -> RequestError {
    let status = answer.status;
    let code = format!("http_{}", status.as_u16());
    if is_of_credential(status) {
        return RequestError::new(code, read_problem(answer, "").message, true);
    }
    let hint = if status.is_redirection() { ", and redirects are not followed" } else { "" };
    RequestError::new(code, format!("the service answered {status}{hint}"), true)
}
