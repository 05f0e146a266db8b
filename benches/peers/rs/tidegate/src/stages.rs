//! Stages that answer at once, and a responder for answers that come later.

use std::{sync::Arc, time::Duration};

use peercommon as pc;
use tidegate::{
    internals::store::{Response, Store},
    request::{Request, RequestId},
    stage::{Check, JsonText, Readiness, Receipt, Sent, Stages, Transact},
};
use tokio::{
    sync::{Mutex, mpsc},
    time::Instant,
};

/// How many calls with responses there are at once, how many requests one answers at most where responses come in groups, and
/// how long after a send they come: its receipt has been stored by then.
const RESPONDERS: u32 = 8;
const GROUP: usize = 100;
const RESPONSE_AFTER: Duration = Duration::from_millis(100);

/// Takes what was sent, and when.
type Responder = mpsc::UnboundedSender<(RequestId, Instant)>;

struct Noop {
    /// Responds later; without it the response comes with the receipt.
    responder: Option<Responder>,
}

impl Readiness for Noop {
    type Payload = JsonText;

    async fn check(&self, _: &Request) -> Check {
        Check::Ready
    }
}

impl Transact for Noop {
    type Payload = JsonText;

    async fn send(&self, request: &Request) -> Sent {
        pc::hit();
        let response = match &self.responder {
            Some(responder) => {
                let _ = responder.send((request.id, Instant::now()));
                None
            }
            None => Some(JsonText::from(true)),
        };
        Sent::Receipt(Receipt { reference: None, response })
    }
}

/// All kinds of the relayer's example: as in production, the worker leaves no kind of its queues to others.
const KINDS: [&str; 4] = ["direct", "input_proof", "public_decrypt", "user_decrypt"];

/// The stages of all kinds.
pub fn of_all_kinds(store: &Store) -> Stages {
    let how = pc::word("TIDEGATE_RESPOND", "");
    let responder = (!how.is_empty()).then(|| respond_later(store, &how));
    KINDS.into_iter().fold(Stages::new(), |stages, kind| {
        let stages = stages.transact(kind, Noop { responder: responder.clone() });
        if kind.ends_with("decrypt") { stages.readiness(kind, Noop { responder: None }) } else { stages }
    })
}

/// A responder that answers requests a moment after they were sent: `TIDEGATE_RESPOND=1` each by a call of its own, `many` in
/// groups, `shares` with three shares each, in groups.
fn respond_later(store: &Store, how: &str) -> Responder {
    let (responder, sent) = mpsc::unbounded_channel();
    let sent = Arc::new(Mutex::new(sent));
    let store = store.with_own_pool(RESPONDERS);
    let group = if how == "1" { 1 } else { GROUP };
    let parts: &[Option<&str>] = if how == "shares" { &[Some("a"), Some("b"), Some("c")] } else { &[None] };
    for _ in 0..RESPONDERS {
        let (store, sent) = (store.clone(), Arc::clone(&sent));
        tokio::spawn(async move {
            loop {
                let mut due = Vec::new();
                sent.lock().await.recv_many(&mut due, group).await;
                let Some((_, last)) = due.last() else { return };
                tokio::time::sleep_until(*last + RESPONSE_AFTER).await;
                let ids = due.into_iter().map(|(id, _)| id);
                let responses = ids.flat_map(|id| parts.iter().map(move |part| response(id, *part)));
                for result in store.respond_many(&responses.collect::<Vec<_>>(), None).await.unwrap() {
                    result.unwrap();
                }
            }
        });
    }
    responder
}

fn response(id: RequestId, part: Option<&str>) -> Response {
    Response { id: Some(id), reference: None, part: part.map(Into::into), accept: None, response: true.into() }
}
