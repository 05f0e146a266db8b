//! What every call is held to: how many at once, how long, and that nobody caches it.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    http::{HeaderValue, header::CACHE_CONTROL},
    middleware::Next,
    response::{IntoResponse, Response},
};
use tokio::sync::Semaphore;

use super::problem::{OVERLOADED, TIMED_OUT};

/// Places for the calls that are under way.
#[derive(Debug, Clone)]
pub(super) struct Admission {
    free: Arc<Semaphore>,
    places: usize,
}

impl Admission {
    pub(super) fn new(places: usize) -> Self {
        let places = places.min(Semaphore::MAX_PERMITS);
        Self {
            free: Arc::new(Semaphore::new(places)),
            places,
        }
    }

    /// How many places are taken, and how many there are.
    pub(super) fn taken(&self) -> (usize, usize) {
        let free = self.free.available_permits();
        (self.places.saturating_sub(free), self.places)
    }
}

/// Refuses a call when all places are taken: the caller may then choose another node, which it could not in a queue.
pub(super) async fn admit(
    State(admission): State<Admission>,
    request: Request,
    next: Next,
) -> Response {
    match admission.free.try_acquire() {
        Ok(_place) => next.run(request).await,
        Err(_) => OVERLOADED
            .because("as many calls as this node takes are under way")
            .into_response(),
    }
}

/// Gives a call up when it takes too long. What it has begun in the database may still happen.
pub(super) async fn in_time(
    State(limit): State<Duration>,
    request: Request,
    next: Next,
) -> Response {
    match tokio::time::timeout(limit, next.run(request)).await {
        Ok(response) => response,
        Err(_) => TIMED_OUT
            .because(format!(
                "it took longer than {limit:?}; it may still happen"
            ))
            .into_response(),
    }
}

/// Answers are about this moment.
pub(super) async fn never_cached(mut response: Response) -> Response {
    response
        .headers_mut()
        .insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
