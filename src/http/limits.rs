//! Limits of every call: how many at once, and how long. Forbids caching.

use std::{future::pending, pin::pin, sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    http::{Extensions, header::CACHE_CONTROL},
    middleware::Next,
    response::{IntoResponse, Response},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::problem::{OVERLOADED, TIMED_OUT};

/// Permits for the calls that are under way.
#[derive(Debug, Clone)]
pub(super) struct Admission {
    free: Arc<Semaphore>,
    places: usize,
}

impl Admission {
    pub(super) fn new(places: usize) -> Self {
        let places = places.min(Semaphore::MAX_PERMITS);
        Self { free: Arc::new(Semaphore::new(places)), places }
    }

    /// A permit, if one is free.
    pub(super) fn admit(&self) -> Option<Permit> {
        Some(Permit { _taken: Arc::clone(&self.free).try_acquire_owned().ok()? })
    }

    /// How many permits are taken, and how many there are.
    pub(super) fn taken(&self) -> (usize, usize) {
        let free = self.free.available_permits();
        (self.places.saturating_sub(free), self.places)
    }
}

/// A place among the calls that are under way, until it is dropped.
#[derive(Debug)]
#[must_use = "the place is free again when this is dropped"]
pub struct Permit {
    _taken: OwnedSemaphorePermit,
}

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
pub(super) async fn admit(State(admission): State<Admission>, request: Request, next: Next) -> Response {
    let Some(place) = admission.admit() else {
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
