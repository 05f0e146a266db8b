//! One stream of events.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use axum::{http::Extensions, response::sse::Event};
use futures_util::{Stream, stream};
use serde_json::json;
use tidegate::{
    internals::{news::Waiter, store::Progress},
    request::RequestId,
    retry_after::RetryAfter,
};
use tokio::{sync::OwnedSemaphorePermit, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    api::{
        answers::{Ended, InProgress},
        waiting::Shutdown,
    },
    state::{
        access::{Caller, Refusal},
        streams::{KeyShare, Streams},
    },
};

/// How long a reader waits before it connects again.
const RETRY: Duration = Duration::from_secs(2);

/// How often positions and ETAs are read again, of requests in a queue and of the others.
const REFRESH: Duration = Duration::from_secs(2);
const REFRESH_ELSEWHERE: Duration = Duration::from_secs(10);

/// The state that the last event described.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LastSent {
    transition_no: i32,
    position: Option<i64>,
    eta_seconds: Option<RetryAfter>,
}

/// An open stream.
pub(super) struct EventStream {
    id: RequestId,
    waiter: Waiter,
    /// The reader has to reconnect after that: a request may live for years, a stream may not.
    until: Instant,
    caller: Option<Caller>,
    shutdown: CancellationToken,
    last_sent: Option<LastSent>,
    events: VecDeque<Result<Event, axum::Error>>,
    ended: bool,
    streams: Arc<Streams>,
    _places: Places,
}

/// Its places among the streams of the node, and of its key.
type Places = (OwnedSemaphorePermit, KeyShare);

impl EventStream {
    /// The events of a request from here on, for a reader that has its transitions up to `known`, as the answer to a
    /// call with these extensions.
    pub(super) fn events(
        streams: Arc<Streams>,
        places: Places,
        waiter: Waiter,
        extensions: &Extensions,
        known: Option<i32>,
        progress: Progress,
    ) -> impl Stream<Item = Result<Event, axum::Error>> + use<> {
        // A reader that has the state gets only the other changes.
        let known = known.filter(|known| *known == progress.transition_no);
        let last_sent = known.map(|transition_no| LastSent { transition_no, position: None, eta_seconds: None });
        let mut stream = Self {
            id: progress.outlook.id,
            waiter,
            until: Instant::now() + streams.time,
            caller: extensions.get().cloned(),
            shutdown: Shutdown::of(extensions),
            last_sent,
            events: VecDeque::from([Ok(Event::default().retry(RETRY))]),
            ended: false,
            streams,
            _places: places,
        };
        stream.push_changes(progress);
        stream::unfold(stream, |mut stream| async move {
            let event = stream.next().await?;
            Some((event, stream))
        })
    }

    /// The next event; `None` at the end.
    async fn next(&mut self) -> Option<Result<Event, axum::Error>> {
        loop {
            let may_send = self.may_send().await?;
            if may_send && let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            if self.ended && self.events.is_empty() || self.shutdown.is_cancelled() {
                return None;
            }
            let waits_in_queue = self.last_sent.is_none_or(|sent| sent.position.is_some());
            let period = if waits_in_queue { REFRESH } else { REFRESH_ELSEWHERE };
            let refresh = self.streams.next_refresh(period);
            tokio::select! {
                () = self.waiter.moved() => {}
                () = tokio::time::sleep_until(refresh) => {}
                () = tokio::time::sleep_until(self.until) => return None,
                () = self.shutdown.cancelled() => return None,
            }
            // Pending events are sent before the outlook is read again.
            if !self.events.is_empty() || !self.may_send().await? {
                continue;
            }
            let known = self.last_sent.map(|sent| sent.transition_no);
            match self.streams.outlooks.read(self.id, known).await {
                Ok(Some(progress)) => self.push_changes(progress),
                // The request was deleted: a reader that reconnects gets 404.
                Ok(None) => self.ended = true,
                // Read again at the next refresh.
                Err(_) => {}
            }
        }
    }

    /// Whether events may be sent now; `None` when the reader has lost its access.
    async fn may_send(&self) -> Option<bool> {
        let Some(caller) = &self.caller else {
            return Some(true);
        };
        let access = tokio::select! {
            access = caller.check_access() => access,
            () = self.shutdown.cancelled() => return Some(false),
        };
        match access {
            Ok(()) => Some(true),
            Err(Refusal::Unavailable(_)) => Some(false),
            Err(_) => None,
        }
    }

    /// Makes events of the changes since the last one.
    fn push_changes(&mut self, progress: Progress) {
        let (transition_no, outlook) = (progress.transition_no, progress.outlook);
        for (number, status) in progress.missed {
            let body = json!({ "status": "queued", "job_id": self.id, "state": status });
            self.push("state", number, body);
        }
        if outlook.status.is_terminal() {
            self.ended = true;
            return self.push("result", transition_no, Ended::of(outlook));
        }
        let position = outlook.position;
        let eta_seconds = outlook.eta.map(|eta| eta.retry_after);
        let now = LastSent { transition_no, position, eta_seconds };
        match self.last_sent.replace(now) {
            Some(sent) if sent == now => {}
            Some(sent) if sent.transition_no == transition_no && sent.position != position => {
                let body = json!({ "position": position, "eta_seconds": eta_seconds });
                self.push("position", transition_no, body);
            }
            Some(sent) if sent.transition_no == transition_no => {
                self.push("eta", transition_no, json!({ "eta_seconds": eta_seconds }));
            }
            _ => self.push("state", transition_no, InProgress::of(&outlook)),
        }
    }

    fn push(&mut self, event: &str, transition_no: i32, body: impl serde::Serialize) {
        let event = Event::default().event(event).id(transition_no.to_string());
        let event = event.json_data(body);
        // After an error there is no consistent way on.
        self.ended |= event.is_err();
        self.events.push_back(event);
    }
}
