//! `GET /v1/{kind}/{job_id}/events`: a request's way, as server-sent events.
//!
//! A stream is asked for its next event only when its reader has taken the last one, and reads where the request stands
//! only then: however slow a reader is, nothing piles up for it. Before each event its key is looked up again, in the
//! node's copy: the stream of a revoked one ends.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, StatusCode},
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures_util::{Stream, stream};
use serde_json::json;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    Api,
    access::{Pass, Refusal},
    openapi::{
        parameters::{JobParameters, LastEventParameter},
        refusals::{Call, OfJob, Refusals},
        schemas::EventFields,
    },
    outlooks::Outlooks,
    path::{JobPath, unknown},
    poll::{Ended, InProgress},
    problem::{DATABASE_UNAVAILABLE, OVERLOADED, Problem, whole_seconds},
    waiting::Shutdown,
};
use crate::{
    news::{Waiter, Waiters},
    request::RequestId,
    store::{Outlook, Progress},
};

static LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
static ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// How long a reader waits before it connects again.
const RETRY: Duration = Duration::from_secs(2);

/// How often a comment tells both ends that the other is there.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How often positions and ETAs are read again, of those in a queue and of the others.
const REFRESH: Duration = Duration::from_secs(2);
const REFRESH_ELSEWHERE: Duration = Duration::from_secs(10);

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
            description = "Server-sent events, until the request has ended or it is time to come back: `state` as a poll's 202, `position` and `eta` \
                           with what has changed of it, `result` as a poll's 200",
            content_type = "text/event-stream",
            body = EventFields,
        ),
        (status = 204, description = "The request has ended, and `Last-Event-ID` is its end's"),
        Refusals<(Call, OfJob)>,
    ),
    security((), ("api_key" = ["submit"])),
)]
pub(super) async fn follow(
    State(api): State<Arc<Api>>,
    job: JobPath,
    request: Request,
) -> Result<Response, Problem> {
    // Whose request it is, and whether there is one, is found out as for a poll.
    job.find(&api.store).await?;
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
    let place = Arc::clone(&streams.places)
        .try_acquire_owned()
        .map_err(|_| full())?;
    let waiter = streams
        .waiters
        .follow(job.id, progress.transition_no)
        .ok_or_else(full)?;
    let followed = Followed {
        id: job.id,
        waiter,
        until: Instant::now() + streams.time,
        pass: request.extensions().get().cloned(),
        shutdown: Shutdown::of(request.extensions()),
        // Of a state that the reader has seen, only what else has changed is told.
        told: known
            .filter(|known| *known == progress.transition_no)
            .map(Told::only_state),
        events: VecDeque::from([Event::default().retry(RETRY)]),
        ended: false,
        streams,
        _place: place,
    };
    let events = followed.begin(progress);
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

/// What the reader was told last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Told {
    transition_no: i32,
    position: Option<i64>,
    eta_seconds: u64,
}

impl Told {
    const fn only_state(transition_no: i32) -> Self {
        Self {
            transition_no,
            position: None,
            eta_seconds: 0,
        }
    }
}

/// A stream that is open.
struct Followed {
    id: RequestId,
    waiter: Waiter,
    /// Beyond that its reader has to come back, so that a key that was revoked meanwhile is noticed.
    until: Instant,
    pass: Option<Pass>,
    shutdown: CancellationToken,
    told: Option<Told>,
    events: VecDeque<Event>,
    ended: bool,
    streams: Arc<Streams>,
    _place: OwnedSemaphorePermit,
}

impl Followed {
    fn begin(mut self, progress: Progress) -> impl Stream<Item = Result<Event, axum::Error>> {
        let begun = self.take(progress);
        stream::unfold((self, begun.err()), |(mut followed, failed)| async move {
            if let Some(error) = failed {
                followed.ended = true;
                return Some((Err(error), (followed, None)));
            }
            let event = followed.next().await?;
            Some((event, (followed, None)))
        })
    }

    /// The next event; `None` at the end.
    async fn next(&mut self) -> Option<Result<Event, axum::Error>> {
        loop {
            let may_be_told = self.may_be_told().await?;
            if may_be_told && let Some(event) = self.events.pop_front() {
                return Some(Ok(event));
            }
            if self.ended && self.events.is_empty() || self.shutdown.is_cancelled() {
                return None;
            }
            let waits_in_queue = self.told.is_none_or(|told| told.position.is_some());
            let period = if waits_in_queue {
                REFRESH
            } else {
                REFRESH_ELSEWHERE
            };
            let refresh = self.streams.next_refresh(period);
            tokio::select! {
                () = self.waiter.moved() => {}
                () = tokio::time::sleep_until(refresh) => {}
                () = tokio::time::sleep_until(self.until) => return None,
                () = self.shutdown.cancelled() => return None,
            }
            // What has been read is told first, as soon as its reader may be told.
            if !self.events.is_empty() || !self.may_be_told().await? {
                continue;
            }
            let known = self.told.map(|told| told.transition_no);
            match self.streams.outlooks.read(self.id, known).await {
                Ok(Some(progress)) => {
                    if let Err(error) = self.take(progress) {
                        self.ended = true;
                        return Some(Err(error));
                    }
                }
                // The request is gone: whoever comes back gets 404.
                Ok(None) => self.ended = true,
                // Looked at again at the next refresh.
                Err(_) => {}
            }
        }
    }

    /// Whether the reader may be told anything just now; `None` when it never may again.
    async fn may_be_told(&self) -> Option<bool> {
        let Some(pass) = &self.pass else {
            return Some(true);
        };
        let holds = tokio::select! {
            holds = pass.holds() => holds,
            () = self.shutdown.cancelled() => return Some(false),
        };
        match holds {
            Ok(()) => Some(true),
            Err(Refusal::Unavailable(_)) => Some(false),
            Err(_) => None,
        }
    }

    /// Makes events of what has changed.
    fn take(&mut self, progress: Progress) -> Result<(), axum::Error> {
        let Progress {
            transition_no,
            missed,
            outlook,
        } = progress;
        for (number, status) in missed {
            let body = json!({ "status": "queued", "job_id": self.id, "state": status });
            self.tell("state", number, body)?;
        }
        if outlook.status.is_terminal() {
            self.ended = true;
            return self.tell("result", transition_no, Ended::of(outlook));
        }
        let now = Told::of(transition_no, &outlook);
        match self.told.replace(now) {
            Some(told) if told.transition_no == transition_no => {
                let Told {
                    position,
                    eta_seconds,
                    ..
                } = now;
                if told.position != position {
                    let body = json!({ "position": position, "eta_seconds": eta_seconds });
                    self.tell("position", transition_no, body)?;
                } else if told.eta_seconds != eta_seconds {
                    let body = json!({ "eta_seconds": eta_seconds });
                    self.tell("eta", transition_no, body)?;
                }
                Ok(())
            }
            _ => self.tell("state", transition_no, InProgress::of(&outlook)),
        }
    }

    fn tell(
        &mut self,
        event: &str,
        transition_no: i32,
        body: impl serde::Serialize,
    ) -> Result<(), axum::Error> {
        let event = Event::default()
            .event(event)
            .id(transition_no.to_string())
            .json_data(body)?;
        self.events.push_back(event);
        Ok(())
    }
}

impl Told {
    fn of(transition_no: i32, outlook: &Outlook) -> Self {
        Self {
            transition_no,
            position: outlook.position,
            eta_seconds: whole_seconds(outlook.retry_after),
        }
    }
}
