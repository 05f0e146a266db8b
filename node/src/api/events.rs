//! `GET /v1/{kind}/{job_id}/events`: the moves of a request, as server-sent events.
//!
//! A stream reads the outlook only when its reader has taken the last event, so a slow reader accumulates no events.
//! Before each event the key is checked again in the node's copy: the stream of a revoked key ends.

mod stream;

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    extract::{FromRequestParts, State},
    http::{Extensions, StatusCode, request::Parts},
    response::{IntoResponse, Response, Sse, sse::KeepAlive},
};

use self::stream::EventStream;
use super::{
    context::Api,
    openapi::{
        refusals::{Call, OfJob, Refusals},
        schemas::Events,
    },
    path::JobPath,
    problem::{OVERLOADED, Problem},
};
use crate::state::access::Caller;

/// The interval of comments that keep an idle connection open.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

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
