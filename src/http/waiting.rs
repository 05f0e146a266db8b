//! `Prefer: wait=N`: an answer that says "in progress" is held back until there is a better one, or the time is over.
//!
//! The call itself ends as any other does, within its time and its place among the calls under way; what it answers is
//! held back outside of both. So those who wait keep nobody else out, and have a bound of their own: beyond it, and
//! whenever the database cannot be asked, the answer goes out as it is. It is true, and says when to come back. Whoever
//! has lost the right to it meanwhile is told that instead.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    http::{
        HeaderMap, HeaderName, HeaderValue, StatusCode,
        header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER},
    },
    middleware::Next,
    response::{IntoResponse, Response},
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    access::{Pass, Refusal},
    answers,
    metrics::NodeMetrics,
    outlooks::Outlooks,
    polls::Polls,
    prefer,
};
use crate::{news::Waiters, request::RequestId, store::Outlook};

static PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// In a call's extensions: cancelled when the server is to end.
#[derive(Debug, Clone)]
pub(super) struct Shutdown(pub(super) CancellationToken);

impl Shutdown {
    /// The one that the server put into a call; without a server, one that is never cancelled.
    pub(super) fn of(extensions: &axum::http::Extensions) -> CancellationToken {
        extensions
            .get::<Self>()
            .map_or_else(CancellationToken::new, |shutdown| shutdown.0.clone())
    }
}

/// What waiting needs.
#[derive(Clone)]
pub(super) struct Waiting {
    pub(super) waiters: Waiters,
    pub(super) outlooks: Outlooks,
    pub(super) wait_max: Duration,
    pub(super) polls: Polls,
    pub(super) metrics: Arc<NodeMetrics>,
}

/// In an answer's extensions: whose answer it is, and how long its caller would wait for a better one.
#[derive(Debug, Clone)]
struct Held {
    id: RequestId,
    wait: Duration,
    /// The request's kind, when the call is a poll that is still to be counted.
    poll_of: Option<String>,
}

/// Marks the answer about a request as one that may be held back, if its caller would wait. `poll_of` is the request's
/// kind, when the call is a poll that is to be counted as it goes out.
pub(super) fn hold(
    mut response: Response,
    headers: &HeaderMap,
    id: RequestId,
    poll_of: Option<String>,
) -> Response {
    if let Some(wait) = prefer::wait(headers) {
        response.extensions_mut().insert(Held { id, wait, poll_of });
    }
    response
}

/// Holds back what is marked.
pub(super) async fn hold_back(
    State(waiting): State<Arc<Waiting>>,
    request: Request,
    next: Next,
) -> Response {
    let shutdown = Shutdown::of(request.extensions());
    let mut response = next.run(request).await;
    let Some(Held { id, wait, poll_of }) = response.extensions_mut().remove() else {
        return response;
    };
    let wait = wait.min(waiting.wait_max);
    if response.status() == StatusCode::ACCEPTED {
        let outlook = match wait {
            Duration::ZERO => None,
            wait => waiting.wait(id, wait, &shutdown).await,
        };
        let ended = outlook
            .as_ref()
            .is_some_and(|outlook| outlook.status.is_terminal());
        if let Some(kind) = poll_of {
            waiting.metrics.polled(&kind, ended);
            if !ended {
                waiting.polls.count_in_vain(id);
            }
        }
        let admitted = match response.extensions_mut().remove::<Pass>() {
            Some(pass) if !wait.is_zero() => pass.holds().await,
            _ => Ok(()),
        };
        match (outlook, admitted) {
            // Nobody can tell: the answer that was held back was made for a caller who was let in.
            (_, Err(Refusal::Unavailable(_))) => return response,
            (_, Err(refusal)) => return refusal.into_response(),
            (None, Ok(())) if !wait.is_zero() => return response,
            (None, Ok(())) => {}
            (Some(outlook), Ok(())) => {
                if ended {
                    waiting.polls.count(&outlook);
                }
                response = instead(&response, answers::answer(outlook));
            }
        }
    }
    if let Ok(applied) = HeaderValue::try_from(format!("wait={}", wait.as_secs())) {
        response.headers_mut().insert(&PREFERENCE_APPLIED, applied);
    }
    response
}

impl Waiting {
    /// Where the request stands when it has ended, the time is over or the server is to end; `None` when nobody can
    /// wait or look.
    async fn wait(
        &self,
        id: RequestId,
        wait: Duration,
        shutdown: &CancellationToken,
    ) -> Option<Outlook> {
        let until = Instant::now().checked_add(wait)?;
        let mut waiter = self.waiters.wait_for(id)?;
        loop {
            let over = tokio::select! {
                () = waiter.ended() => false,
                () = tokio::time::sleep_until(until) => true,
                () = shutdown.cancelled() => true,
            };
            let outlook = self.outlooks.read(id, None).await.ok()??.outlook;
            if over || outlook.status.is_terminal() {
                return Some(outlook);
            }
        }
    }
}

/// A later answer in place of an earlier one, with what the earlier one's headers say besides.
fn instead(earlier: &Response, mut later: Response) -> Response {
    let about_the_body = [CONTENT_TYPE, CONTENT_LENGTH, RETRY_AFTER];
    for (name, value) in earlier.headers() {
        if !about_the_body.contains(name) {
            later.headers_mut().append(name, value.clone());
        }
    }
    later
}
