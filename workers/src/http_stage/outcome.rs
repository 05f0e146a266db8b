//! What an answer of the service, or its absence, means for the request.

use std::time::Duration;

use reqwest::StatusCode;
use tidegate::{
    request::RequestError,
    stage::{Check, Receipt, Sent},
};

use super::{
    receipt::{read_problem, read_receipt},
    retry_after,
    service::{Answer, NoAnswer},
};

type Called = Result<Answer, NoAnswer>;

/// What a readiness check found.
pub(super) fn check(called: Called) -> Check {
    match called {
        Ok(answer) if answer.status.is_success() => Check::Ready,
        Ok(answer) if is_final(answer.status) => Check::Failed(problem(&answer, "not_possible")),
        // The service has not said no: it is in trouble itself.
        Ok(answer) if answer.status.is_server_error() => Check::Retry {
            error: unexpected(answer.status),
            after: retry_after(&answer.headers),
        },
        Ok(answer) => Check::Snooze {
            after: retry_after(&answer.headers),
        },
        Err(no_answer) => Check::Retry {
            error: trouble(no_answer),
            after: None,
        },
    }
}

/// What became of a send.
pub(super) fn sent(called: Called) -> Sent {
    let answer = match called {
        Ok(answer) => answer,
        Err(no_answer) => {
            return Sent::Retry {
                error: trouble(no_answer),
                after: None,
                // Without a connection there was nothing to leave through.
                may_have_left: no_answer != NoAnswer::NotConnected,
            };
        }
    };
    if answer.status.is_success() {
        return match read_receipt(&answer) {
            Ok(receipt) => Sent::Receipt(receipt),
            // The service took it, but where its response will be known from is lost: the next attempt asks again.
            Err(error) => Sent::Retry {
                error,
                after: None,
                may_have_left: true,
            },
        };
    }
    if is_final(answer.status) {
        return Sent::Rejected(problem(&answer, "rejected"));
    }
    let after = retry_after(&answer.headers);
    Sent::Retry {
        error: unexpected(answer.status),
        after,
        may_have_left: !turned_away(answer.status, after),
    }
}

/// The receipt of an earlier send.
pub(super) fn found(called: Called) -> Result<Option<Receipt>, RequestError> {
    let answer = called.map_err(trouble)?;
    if answer.status == StatusCode::NOT_FOUND {
        return Ok(None);
    }
    if answer.status.is_success() {
        return read_receipt(&answer).map(Some);
    }
    Err(unexpected(answer.status))
}

/// Whether the same request would be refused again.
///
/// 409 is not final: services that deduplicate answer it while an earlier send of the same key is still at work. Nor
/// are redirects, which are not followed: what an operator set wrongly must not cost requests.
fn is_final(status: StatusCode) -> bool {
    status.is_client_error() && !matches!(status.as_u16(), 408 | 409 | 425 | 429)
}

/// Whether the service says that it did not begin with the request.
///
/// 429 and 425 are said by whoever guards the door. A 503 is too when it says when to come back; without that it may
/// be a proxy's way to say that it lost the service half-way. 408 is used for both.
fn turned_away(status: StatusCode, after: Option<Duration>) -> bool {
    match status.as_u16() {
        425 | 429 => true,
        503 => after.is_some(),
        _ => false,
    }
}

fn trouble(no_answer: NoAnswer) -> RequestError {
    let (code, message) = match no_answer {
        NoAnswer::NotConnected => ("connect", "the service could not be reached"),
        NoAnswer::TooSlow => ("timeout", "the service did not answer in time"),
        NoAnswer::Broken => ("connection_lost", "the service hung up without an answer"),
    };
    RequestError::new(code, message, true)
}

fn unexpected(status: StatusCode) -> RequestError {
    let code = format!("http_{}", status.as_u16());
    let hint = if status.is_redirection() {
        ", and redirects are not followed"
    } else {
        ""
    };
    RequestError::new(code, format!("the service answered {status}{hint}"), true)
}

/// The service's own words, or else `code` and its status.
fn problem(answer: &Answer, code: &str) -> RequestError {
    let problem = read_problem(answer).unwrap_or_default();
    let message = problem
        .message
        .unwrap_or_else(|| format!("the service answered {}", answer.status));
    RequestError::new(
        problem.code.unwrap_or_else(|| code.to_owned()),
        message,
        problem.retryable,
    )
}
