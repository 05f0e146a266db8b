//! `GET /v1/{kind}/{job_id}/events`: a request's way, as server-sent events.
//!
//! A stream is asked for its next event only when its reader has taken the last one, and reads where the request stands
//! only then: however slow a reader is, nothing piles up for it. Before each event its key is looked up again, in the
//! node's copy: the stream of a revoked one ends.

mod followed;

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, StatusCode},
    response::{
        IntoResponse, Response,
        sse::{KeepAlive, Sse},
    },
};
use tokio::{sync::Semaphore, time::Instant};

use self::followed::{Ends, Followed};
use super::{
    Api,
    openapi::{
        parameters::{JobParameters, LastEventParameter},
        refusals::{Call, OfJob, Refusals},
        schemas::EventFields,
    },
    outlooks::Outlooks,
    path::{JobPath, unknown},
    problem::{DATABASE_UNAVAILABLE, OVERLOADED, Problem},
    waiting::Shutdown,
};
use crate::news::Waiters;

static LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
static ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// How often a comment tells both ends that the other is there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// What the streams of a node share.
pub(super) struct Streams {
    waiters: Waiters,
    /// Statements of their own: what is merely refreshed must not hold up those who wait for an answer.
    outlooks: Outlooks,
    places: Arc<Semaphore>,
    /// How long each is open.
    time: Duration,
    /// Refreshes fall on whole periods since then, so that streams are refreshed together.
    began: Instant,
}

impl Streams {
    pub(super) fn new(waiters: Waiters, outlooks: Outlooks, places: usize, time: Duration) -> Self {
        Self {
            waiters,
            outlooks,
            places: Arc::new(Semaphore::new(places.min(Semaphore::MAX_PERMITS))),
            time,
            began: Instant::now(),
        }
    }

    /// The next time at which whole periods have passed.
    fn next_refresh(&self, period: Duration) -> Instant {
        let passed = self.began.elapsed().as_millis() / period.as_millis();
        let periods = u32::try_from(passed + 1).unwrap_or(u32::MAX);
        self.began + period * periods
    }
}

/// `GET /v1/{kind}/{job_id}/events`: `state` at each change of status, `position` and `eta` when they change meanwhile,
/// `result` at the end, and then the stream ends. The id of an event is the number of the request's latest transition;
/// with `Last-Event-ID`, the states after it come first. 204 to whoever has the result already. A stream ends after a
/// while in any case; its reader comes back with `Last-Event-ID`.
#[utoipa::path(
    get,
    path = "/v1/{kind}/{job_id}/events",
    operation_id = "follow",
    tag = "requests",
    summary = "Follow a request, as server-sent events",
    params(JobParameters, LastEventParameter),
    responses(
        (
            status = 200,
            description = "Server-sent events, until the request has ended or it is time to come back: `state` as a \
                           poll's 202, `position` and `eta` with what has changed of it, `result` as a poll's 200",
            content_type = "text/event-stream",
            body = EventFields,
        ),
        (status = 204, description = "The request has ended, and `Last-Event-ID` is its end's"),
        Refusals<(Call, OfJob)>,
    ),
    security((), ("api_key" = ["submit"])),
)]
pub(super) async fn follow(State(api): State<Arc<Api>>, job: JobPath, request: Request) -> Result<Response, Problem> {
    job.authorise(&api.store).await?;
    let streams = Arc::clone(&api.streams);
    let known = last_event(request.headers());
    let progress = match streams.outlooks.read(job.id, known).await {
        Ok(Some(progress)) => progress,
        Ok(None) => return Err(unknown(job.id)),
        Err(_) => {
            return Err(DATABASE_UNAVAILABLE.because("where the request stands cannot be read"));
        }
    };
    if progress.outlook.status.is_terminal() && known == Some(progress.transition_no) {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let full = || OVERLOADED.because("as many streams as this node serves are open");
    let place = Arc::clone(&streams.places).try_acquire_owned().map_err(|_| full())?;
    let waiter = streams
        .waiters
        .follow(job.id, progress.transition_no)
        .ok_or_else(full)?;
    let shutdown = Shutdown::of(request.extensions());
    let ends = Ends {
        pass: request.extensions().get().cloned(),
        shutdown,
    };
    let events = Followed::open(job.id, waiter, ends, streams, place, known, progress);
    Ok((
        [(ACCEL_BUFFERING.clone(), "no")],
        Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)),
    )
        .into_response())
}

/// The transition that the reader has seen; what is none of ours is ignored.
fn last_event(headers: &HeaderMap) -> Option<i32> {
    let number = headers.get(&LAST_EVENT_ID)?.to_str().ok()?.trim();
    number.parse().ok().filter(|number| *number > 0)
}
