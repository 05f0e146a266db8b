//! `Prefer: wait=N`: a call about a request that is under way waits for its end, or until the time is over.
//!
//! A waiting call releases its permit, and the time limit of calls no longer applies to it. Waiters have their own
//! limit. Beyond it, and when the database cannot be read, the caller gets the outlook from before the wait, with its
//! `Retry-After`. A caller whose key was revoked meanwhile gets 401.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    extract::FromRequestParts,
    http::{Extensions, request::Parts},
    response::{IntoResponse, Response},
};
use tidegate::{
    internals::store::Outlook,
    request::{RequestId, Status},
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{context::Api, limits::Idle, prefer};
use crate::state::access::{Caller, Refusal};

/// In a call's extensions: cancelled when the server shuts down.
#[derive(Debug, Clone)]
pub(super) struct Shutdown(pub(super) CancellationToken);

impl Shutdown {
    /// The server's token; without a server, one that is never cancelled.
    pub(super) fn of(extensions: &Extensions) -> CancellationToken {
        extensions.get().map(|Self(shutdown)| shutdown.clone()).unwrap_or_default()
    }
}

/// How long a caller waits for the end of its request.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Header)]
pub(super) struct Wait {
    /// `wait=N`: holds an answer back that would be 202, for N seconds at most. Anything else is ignored.
    // None also when the wait was not possible.
    #[param(rename = "Prefer", value_type = Option<String>, nullable = false, example = "wait=10")]
    time: Option<Duration>,
    #[param(ignore)]
    caller: Option<Caller>,
    #[param(ignore)]
    idle: Idle,
    #[param(ignore)]
    shutdown: CancellationToken,
}

impl FromRequestParts<Arc<Api>> for Wait {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, api: &Arc<Api>) -> Result<Self, Infallible> {
        Ok(Self {
            time: prefer::wait(&parts.headers).map(|time| time.min(api.node.options.http.wait_max)),
            caller: parts.extensions.get().cloned(),
            idle: Idle::of(&parts.extensions),
            shutdown: Shutdown::of(&parts.extensions),
        })
    }
}

impl Wait {
    /// The outlook after the wait; `None` without a wait, or when the database could not be read.
    ///
    /// # Errors
    ///
    /// When the caller has lost its access meanwhile.
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
        if let Some(caller) = &self.caller {
            match caller.check_access().await {
                Err(Refusal::Unavailable(_)) => outlook = None,
                access => access?,
            }
        }
        if outlook.is_none() {
            self.time = None;
        }
        Ok(outlook)
    }

    /// The outlook when the request has ended, the time is over or the server shuts down.
    async fn ended(&self, api: &Api, id: RequestId, time: Duration) -> Option<Outlook> {
        let until = Instant::now().checked_add(time)?;
        let mut waiter = api.node.waiters.wait_for(id)?;
        loop {
            let over = tokio::select! {
                () = waiter.ended() => false,
                () = tokio::time::sleep_until(until) => true,
                () = self.shutdown.cancelled() => true,
            };
            let outlook = api.node.outlooks.read(id, None).await.ok()??.outlook;
            if over || outlook.status.is_terminal() {
                return Some(outlook);
            }
        }
    }

    /// Adds to an answer the wait in force.
    pub(super) fn applied(&self, answer: impl IntoResponse) -> Response {
        let applied = self.time.map(|time| [("preference-applied", format!("wait={}", time.as_secs()))]);
        (applied, answer).into_response()
    }
}
