//! Limits of every call: how many at once, and how long. Forbids caching.

use std::{future::pending, pin::pin, time::Duration};

use axum::{
    extract::{Request, State},
    http::{Extensions, header::CACHE_CONTROL},
    middleware::Next,
    response::{IntoResponse, Response},
};
use tokio_util::sync::CancellationToken;

use super::problem::{OVERLOADED, TIMED_OUT};
use crate::state::places::Places;

/// In a call's extensions: whether it only waits, which needs no permit and has another time limit.
#[derive(Debug, Clone, Default)]
pub(super) struct Idle(CancellationToken);

impl Idle {
    pub(super) fn of(extensions: &Extensions) -> Self {
        extensions.get().cloned().unwrap_or_default()
    }

    /// Marks the call as waiting only.
    pub(super) fn begin(&self) {
        self.0.cancel();
    }
}

/// Refuses a call when all permits are taken: the caller can choose another node, which it could not do while queued.
pub(super) async fn admit(State(places): State<Places>, request: Request, next: Next) -> Response {
    let Some(place) = places.take() else {
        let problem = OVERLOADED.because("as many calls as this node serves are under way");
        return problem.into_response();
    };
    let idle = Idle::of(request.extensions());
    let mut call = pin!(next.run(request));
    tokio::select! {
        biased;
        response = &mut call => return response,
        () = idle.0.cancelled() => drop(place),
    }
    call.await
}

/// Ends a call that takes too long. Its statement in the database may still commit.
pub(super) async fn in_time(State(limit): State<Duration>, mut request: Request, next: Next) -> Response {
    let idle = Idle::default();
    request.extensions_mut().insert(idle.clone());
    let too_late = async {
        tokio::time::sleep(limit).await;
        if idle.0.is_cancelled() {
            pending::<()>().await;
        }
    };
    tokio::select! {
        // A complete answer is sent, however late.
        biased;
        response = next.run(request) => response,
        () = too_late => TIMED_OUT.because(format!("it took longer than {limit:?}; it may still commit")).into_response(),
    }
}

/// Answers describe the state at the time of the call.
pub(super) async fn never_cached(response: Response) -> impl IntoResponse {
    ([(CACHE_CONTROL, "no-store")], response)
}
