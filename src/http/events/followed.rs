//! One stream: what its reader is told, and when.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use axum::response::sse::Event;
use futures_util::{Stream, stream};
use serde_json::json;
use tokio::{sync::OwnedSemaphorePermit, time::Instant};
use tokio_util::sync::CancellationToken;

use super::Streams;
use crate::{
    http::{
        access::{Pass, Refusal},
        answers::{Ended, InProgress},
    },
    news::Waiter,
    request::RequestId,
    retry_after::RetryAfter,
    store::{Outlook, Progress},
};

/// How long a reader waits before it connects again.
const RETRY: Duration = Duration::from_secs(2);

/// How often positions and ETAs are read again, of those in a queue and of the others.
const REFRESH: Duration = Duration::from_secs(2);
const REFRESH_ELSEWHERE: Duration = Duration::from_secs(10);

/// What the reader was told last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Told {
    transition_no: i32,
    position: Option<i64>,
    eta_seconds: Option<RetryAfter>,
}

impl Told {
    const fn only_state(transition_no: i32) -> Self {
        Self {
            transition_no,
            position: None,
            eta_seconds: None,
        }
    }
}

/// What may end a stream before its request does.
pub(super) struct Ends {
    pub(super) pass: Option<Pass>,
    pub(super) shutdown: CancellationToken,
}

/// A stream that is open.
pub(super) struct Followed {
    id: RequestId,
    waiter: Waiter,
    /// Beyond that its reader has to come back: a request may last for years, a stream may not.
    until: Instant,
    ends: Ends,
    told: Option<Told>,
    events: VecDeque<Event>,
    ended: bool,
    streams: Arc<Streams>,
    _place: OwnedSemaphorePermit,
}

impl Followed {
    /// The events of a request from here on, for a reader who knows its way up to a transition.
    pub(super) fn open(
        id: RequestId,
        waiter: Waiter,
        ends: Ends,
        streams: Arc<Streams>,
        place: OwnedSemaphorePermit,
        known: Option<i32>,
        progress: Progress,
    ) -> impl Stream<Item = Result<Event, axum::Error>> {
        let mut followed = Self {
            id,
            waiter,
            until: Instant::now() + streams.time,
            ends,
            // Of a state that the reader has seen, only what else has changed is told.
            told: known
                .filter(|known| *known == progress.transition_no)
                .map(Told::only_state),
            events: VecDeque::from([Event::default().retry(RETRY)]),
            ended: false,
            streams,
            _place: place,
        };
        let begun = followed.take(progress);
        stream::unfold((followed, begun.err()), |(mut followed, failed)| async move {
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
            if self.ended && self.events.is_empty() || self.ends.shutdown.is_cancelled() {
                return None;
            }
            let waits_in_queue = self.told.is_none_or(|told| told.position.is_some());
            let period = if waits_in_queue { REFRESH } else { REFRESH_ELSEWHERE };
            let refresh = self.streams.next_refresh(period);
            tokio::select! {
                () = self.waiter.moved() => {}
                () = tokio::time::sleep_until(refresh) => {}
                () = tokio::time::sleep_until(self.until) => return None,
                () = self.ends.shutdown.cancelled() => return None,
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
        let Some(pass) = &self.ends.pass else {
            return Some(true);
        };
        let holds = tokio::select! {
            holds = pass.holds() => holds,
            () = self.ends.shutdown.cancelled() => return Some(false),
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
                    position, eta_seconds, ..
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

    fn tell(&mut self, event: &str, transition_no: i32, body: impl serde::Serialize) -> Result<(), axum::Error> {
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
            eta_seconds: outlook.eta.map(|eta| eta.retry_after),
        }
    }
}
