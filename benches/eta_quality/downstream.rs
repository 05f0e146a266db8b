//! The downstream: takes a request in 50 ms, answers after its service time, and stops while the load has a stall.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde::Deserialize;
use tidegate::{
    internals::store::{Response, Store},
    request::{Request, RequestId},
    stage::{JsonText, Receipt, Sent, Transact},
};
use tokio::time::{Instant, sleep_until};

use super::load::Schedule;

/// Time of a send.
const TAKES: Duration = Duration::from_millis(50);

#[derive(Deserialize)]
struct Payload {
    place: usize,
}

#[derive(Clone)]
pub(crate) struct Downstream {
    store: Store,
    schedule: Arc<Schedule>,
    began_at: Instant,
    /// Time at which the answer of each request was stored.
    ready: Arc<Mutex<HashMap<RequestId, Instant>>>,
}

impl Downstream {
    pub(crate) fn new(store: Store, schedule: Arc<Schedule>, began_at: Instant) -> Self {
        Self { store, schedule, began_at, ready: Arc::default() }
    }

    /// Time at which an answer that a caller has read was stored: now, if it is not recorded yet.
    pub(crate) fn ready_at(&self, id: RequestId) -> Instant {
        let ready = self.ready.lock().unwrap();
        ready.get(&id).copied().unwrap_or_else(Instant::now)
    }

    /// Works for this duration from now on, interrupted by the stall.
    async fn work(&self, time: Duration) {
        let done = self.schedule.done(self.began_at.elapsed(), time);
        sleep_until(self.began_at + done).await;
    }

    async fn answer(self, id: RequestId, service: Duration) {
        self.work(service).await;
        let response = Response { id: Some(id), reference: None, part: None, accept: None, response: true.into() };
        self.store.respond(&response).await.unwrap();
        self.ready.lock().unwrap().insert(id, Instant::now());
    }
}

impl Transact for Downstream {
    type Payload = JsonText;

    async fn send(&self, request: &Request) -> Sent {
        let payload: Payload = serde_json::from_str(request.payload.get()).unwrap();
        let service = self.schedule.services[payload.place];
        self.work(TAKES).await;
        // The receipt must be stored first; the service time is long enough for that.
        tokio::spawn(self.clone().answer(request.id, service));
        Sent::Receipt(Receipt::default())
    }
}
