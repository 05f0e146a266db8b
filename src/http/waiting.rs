//! `Prefer: wait=N`: a call about a request that is under way waits for its end, or until the time is over.
//!
//! A call that waits has done its work: it gives its place back, and the time limit of calls no longer counts. Waiters
//! have a bound of their own. Beyond it, and when the database cannot be read, the caller is told what was known before
//! the wait; that is true, and says when to ask again. A caller whose key was revoked meanwhile is told that instead.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    extract::FromRequestParts,
    http::{Extensions, HeaderName, HeaderValue, request::Parts},
    response::Response,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    Api,
    access::{Pass, Refusal},
    limits::Idle,
    prefer,
};
use crate::{
    request::{RequestId, Status},
    store::Outlook,
};

static PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// In a call's extensions: cancelled when the server is to end.
#[derive(Debug, Clone)]
pub(super) struct Shutdown(pub(super) CancellationToken);

impl Shutdown {
    /// The one that the server put into a call; without a server, one that is never cancelled.
    pub(super) fn of(extensions: &Extensions) -> CancellationToken {
        extensions
            .get::<Self>()
            .map_or_else(CancellationToken::new, |shutdown| shutdown.0.clone())
    }
}

/// How long a caller wants to wait for the end of its request, and what limits that.
pub(super) struct Wait {
    /// `None` when it did not say, or the wait was not possible.
    time: Option<Duration>,
    pass: Option<Pass>,
    idle: Idle,
    shutdown: CancellationToken,
}

impl FromRequestParts<Arc<Api>> for Wait {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, Infallible> {
        Ok(Self {
            time: prefer::wait(&parts.headers).map(|time| time.min(api.wait_max)),
            pass: parts.extensions.get().cloned(),
            idle: Idle::of(&parts.extensions),
            shutdown: Shutdown::of(&parts.extensions),
        })
    }
}

impl Wait {
    /// Where a request stands after the wait; `None` when there was none, or the database could not be read.
    ///
    /// # Errors
    ///
    /// When the caller may not be told any more.
    pub(super) async fn for_end(
        &mut self,
        api: &Api,
        id: RequestId,
        status: Status,
    ) -> Result<Option<Outlook>, Refusal> {
        let time = match self.time {
            Some(time) if !time.is_zero() && !status.is_terminal() => time,
            _ => return Ok(None),
        };
        self.idle.begin();
        let mut outlook = self.ended(api, id, time).await;
        if let Some(pass) = &self.pass {
            match pass.holds().await {
                Err(Refusal::Unavailable(_)) => outlook = None,
                holds => holds?,
            }
        }
        if outlook.is_none() {
            self.time = None;
        }
        Ok(outlook)
    }

    /// Where the request stands when it has ended, the time is over or the server is to end.
    async fn ended(&self, api: &Api, id: RequestId, time: Duration) -> Option<Outlook> {
        let until = Instant::now().checked_add(time)?;
        let mut waiter = api.waiters.wait_for(id)?;
        loop {
            let over = tokio::select! {
                () = waiter.ended() => false,
                () = tokio::time::sleep_until(until) => true,
                () = self.shutdown.cancelled() => true,
            };
            let outlook = api.outlooks.read(id, None).await.ok()??.outlook;
            if over || outlook.status.is_terminal() {
                return Some(outlook);
            }
        }
    }

    /// Tells with an answer which wait counted.
    pub(super) fn applied(&self, mut answer: Response) -> Response {
        if let Some(time) = self.time
            && let Ok(applied) = HeaderValue::try_from(format!("wait={}", time.as_secs()))
        {
            answer.headers_mut().insert(&PREFERENCE_APPLIED, applied);
        }
        answer
    }
}
