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

/// How many responses come at once, and how long after a send: its receipt has been stored by then.
const RESPONDERS: u32 = 8;
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
    let responder = pc::is_set("TIDEGATE_RESPOND").then(|| respond_later(store));
    KINDS.into_iter().fold(Stages::new(), |stages, kind| {
        let stages = stages.transact(kind, Noop { responder: responder.clone() });
        if kind.ends_with("decrypt") { stages.readiness(kind, Noop { responder: None }) } else { stages }
    })
}

/// A responder that answers each request by a call of its own, a moment after it was sent.
fn respond_later(store: &Store) -> Responder {
    let (responder, sent) = mpsc::unbounded_channel();
    let sent = Arc::new(Mutex::new(sent));
    let store = store.with_own_pool(RESPONDERS);
    for _ in 0..RESPONDERS {
        let (store, sent) = (store.clone(), Arc::clone(&sent));
        tokio::spawn(async move {
            loop {
                let next = sent.lock().await.recv().await;
                let Some((id, at)) = next else { return };
                tokio::time::sleep_until(at + RESPONSE_AFTER).await;
                respond(&store, id).await;
            }
        });
    }
    responder
}

async fn respond(store: &Store, id: RequestId) {
    let response = Response { id: Some(id), reference: None, part: None, accept: None, response: true.into() };
    store.respond(&response).await.unwrap();
}
