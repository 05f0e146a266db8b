//! Responses on their way: each waits for its time, then is delivered until the relay has it.

use std::{sync::Arc, time::Duration};

use tidegate::{request::RequestId, store::Response};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Delivered, NotDelivered, Responder, log::EventLog, stats::Counters};

/// How long a response is offered before it is given up.
const PATIENCE: Duration = Duration::from_secs(60);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// What all deliveries share.
struct Office {
    responder: Arc<dyn Responder>,
    at_once: Semaphore,
    counters: Arc<Counters>,
    log: Option<Arc<EventLog>>,
}

/// All responses of one downstream that are not delivered yet.
pub(super) struct Deliveries {
    office: Arc<Office>,
    tasks: TaskTracker,
    given_up: CancellationToken,
}

impl Deliveries {
    pub(super) fn new(responder: Arc<dyn Responder>, counters: Arc<Counters>, log: Option<Arc<EventLog>>) -> Self {
        Self {
            office: Arc::new(Office {
                at_once: Semaphore::new(responder.at_once()),
                responder,
                counters,
                log,
            }),
            tasks: TaskTracker::new(),
            given_up: CancellationToken::new(),
        }
    }

    /// Delivers `response` to request `id` of `kind` after `latency`.
    pub(super) fn post(&self, id: RequestId, kind: &str, latency: Duration, response: Response) {
        let (office, kind) = (self.office.clone(), kind.to_owned());
        let given_up = self.given_up.clone();
        self.tasks.spawn(async move {
            let delivery = async {
                if !latency.is_zero() {
                    sleep(latency).await;
                }
                office.deliver(id, &kind, &response).await;
            };
            if given_up.run_until_cancelled(delivery).await.is_none() {
                office.lose(id, &kind, "the downstream shuts down");
            }
        });
    }

    /// Waits for what is on its way, for `grace` at most; what is left then is lost.
    pub(super) async fn drain(&self, grace: Duration) {
        self.tasks.close();
        if timeout(grace, self.tasks.wait()).await.is_err() {
            tracing::warn!(responses = self.tasks.len(), "responses are lost with the downstream");
            self.given_up.cancel();
            self.tasks.wait().await;
        }
    }
}

impl Office {
    async fn deliver(&self, id: RequestId, kind: &str, response: &Response) {
        self.counters.responses.add();
        self.note(id, kind, "response");
        let due = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            let answer = {
                // Acquiring fails only once the semaphore is closed, which nobody does.
                let _turn = self.at_once.acquire().await;
                self.responder.respond(response).await
            };
            let (why, wait) = match answer {
                Ok(delivered) => return self.delivered(id, kind, delivered),
                Err(NotDelivered::Refused(why)) => return self.lose(id, kind, &why),
                Err(NotDelivered::Retry { why, after }) => (why, after.unwrap_or(pause)),
            };
            if due.elapsed() + wait > PATIENCE {
                return self.lose(id, kind, &why);
            }
            tracing::debug!(request = %id, kind, why, "a response is offered again");
            sleep(wait).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn delivered(&self, id: RequestId, kind: &str, delivered: Delivered) {
        self.counters.responses_delivered.add();
        let event = match delivered {
            Delivered::Taken => "delivered",
            Delivered::Early => {
                self.counters.responses_early.add();
                "delivered_early"
            }
            Delivered::Late => {
                self.counters.responses_late.add();
                "delivered_late"
            }
        };
        self.note(id, kind, event);
    }

    fn lose(&self, id: RequestId, kind: &str, why: &str) {
        self.counters.responses_lost.add();
        self.note(id, kind, "response_lost");
        tracing::warn!(request = %id, kind, why, "a response is given up");
    }

    fn note(&self, id: RequestId, kind: &str, event: &str) {
        if let Some(log) = &self.log {
            log.write(Some(id), kind, event);
        }
    }
}
