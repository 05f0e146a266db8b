//! `GET /v1/{kind}/{job_id}/events`: the moves of a request, as server-sent events.
//!
//! A stream reads the outlook only when its reader has taken the last event, so a slow reader accumulates no events.
//! Before each event the key is checked again in the node's copy: the stream of a revoked key ends.

mod stream;

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    extract::{FromRequestParts, State},
    http::{Extensions, StatusCode, request::Parts},
    response::{IntoResponse, Response, Sse, sse::KeepAlive},
};
use tokio::{sync::Semaphore, time::Instant};

use self::stream::EventStream;
use super::{
    Api, HttpOptions,
    access::Caller,
    openapi::{
        refusals::{Call, OfJob, Refusals},
        schemas::Events,
    },
    outlooks::Outlooks,
    path::JobPath,
    problem::{OVERLOADED, Problem},
};
use crate::{lock::lock, store::Store};

/// The interval of comments that keep an idle connection open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The shared state of the node's streams.
pub(super) struct Streams {
    /// Not those of waiting calls: refreshes must not delay answers.
    outlooks: Outlooks,
    permits: Arc<Semaphore>,
    /// How many streams each key may have open, and has.
    most_of_a_key: usize,
    of_keys: Mutex<HashMap<String, usize>>,
    /// How long each stream is open.
    time: Duration,
    /// Refreshes fall on whole periods since then, so that streams are refreshed together.
    began: Instant,
}

impl Streams {
    pub(super) fn new(store: Store, options: &HttpOptions) -> Self {
        Self {
            outlooks: Outlooks::new(store, 1),
            permits: Arc::new(Semaphore::new(options.streams_max.min(Semaphore::MAX_PERMITS))),
            // So that no key takes those of all others.
            most_of_a_key: options.streams_max.div_ceil(2),
            of_keys: Mutex::default(),
            time: options.stream_time,
            began: Instant::now(),
        }
    }

    /// A place among the streams of a key, if one is free; without API keys there is always one.
    fn of_key(self: &Arc<Self>, key: Option<&str>) -> Option<KeyShare> {
        let key = key.map(str::to_owned);
        if let Some(key) = &key {
            let mut of_keys = lock(&self.of_keys);
            let open = of_keys.entry(key.clone()).or_default();
            if *open >= self.most_of_a_key {
                return None;
            }
            *open += 1;
        }
        Some(KeyShare { key, streams: Arc::clone(self) })
    }

    /// The next time at which whole periods have passed.
    fn next_refresh(&self, period: Duration) -> Instant {
        let passed = self.began.elapsed().as_millis() / period.as_millis();
        let periods = u32::try_from(passed + 1).unwrap_or(u32::MAX);
        self.began + period * periods
    }
}

/// A place among the streams of a key, until it is dropped.
struct KeyShare {
    key: Option<String>,
    streams: Arc<Streams>,
}

impl Drop for KeyShare {
    fn drop(&mut self) {
        let Some(key) = &self.key else { return };
        let mut of_keys = lock(&self.streams.of_keys);
        if let Some(open) = of_keys.get_mut(key) {
            *open -= 1;
            if *open == 0 {
                of_keys.remove(key);
            }
        }
    }
}

/// Follow a request, as server-sent events.
///
/// `state` at each change of status, `position` and `eta` when they change meanwhile, `result` at the end, and then the
/// stream ends. The id of an event is the number of the request's latest transition; with `Last-Event-ID`, the states
/// after it come first. 204 when that is the event of the result. A stream ends after some minutes in any case; its
/// reader reconnects with `Last-Event-ID`.
#[utoipa::path(
    get,
    path = "/v1/{kind}/{job_id}/events",
    params(JobPath, LastEvent),
    responses(
        (
            status = 200,
            description = "Server-sent events, until the request has ended or it is time to reconnect: `state` as a \
                           poll's 202, `position` and `eta` with its changed members, `result` as a poll's 200",
            content_type = "text/event-stream",
            body = Events,
        ),
        (status = 204, description = "The request has ended, and `Last-Event-ID` is its end's"),
        Refusals<(Call, OfJob)>,
    ),
)]
pub(super) async fn follow(
    State(api): State<Arc<Api>>,
    job: JobPath,
    LastEvent { last_event_id: known }: LastEvent,
    extensions: Extensions,
) -> Result<Response, Problem> {
    let streams = Arc::clone(&api.streams);
    let progress = job.find(&streams.outlooks, known).await?;
    if progress.outlook.status.is_terminal() && known == Some(progress.transition_no) {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let full = || OVERLOADED.because("as many streams as this node serves are open");
    let key = extensions.get::<Caller>().and_then(Caller::key_id);
    let too_many = || OVERLOADED.because("as many streams as one API key may have at this node are open");
    let share = streams.of_key(key).ok_or_else(too_many)?;
    let permit = Arc::clone(&streams.permits).try_acquire_owned().map_err(|_| full())?;
    let waiter = api.node.waiters.follow(job.id, progress.transition_no).ok_or_else(full)?;
    let events = EventStream::events(streams, (permit, share), waiter, &extensions, known, progress);
    let events = Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE));
    Ok(([("x-accel-buffering", "no")], events).into_response())
}

/// The last event that the reader has received.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Header)]
pub(super) struct LastEvent {
    /// The id of the last event that was read; an invalid one is ignored.
    #[param(rename = "Last-Event-ID", value_type = Option<String>, nullable = false, example = "1")]
    last_event_id: Option<i32>,
}

impl<S: Send + Sync> FromRequestParts<S> for LastEvent {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let id = parts.headers.get("last-event-id").and_then(|value| value.to_str().ok());
        let last_event_id = id.and_then(|id| id.trim().parse().ok()).filter(|id| *id > 0);
        Ok(Self { last_event_id })
    }
}
