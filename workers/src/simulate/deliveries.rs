//! Responses: each waits for its latency, then is offered until the relay takes it.

use std::{sync::Arc, time::Duration};

use tidegate::{request::RequestId, store::Response};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{Delivered, NotDelivered, Responder, log::EventLog, stats::Counters};

/// How long a response is offered before it counts as lost.
const OFFER_TIME: Duration = Duration::from_secs(60);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The state that all deliveries share.
struct Shared {
    responder: Arc<dyn Responder>,
    at_once: Semaphore,
    counters: Arc<Counters>,
    log: Arc<EventLog>,
}

/// All responses of one downstream that are not delivered yet.
pub(super) struct Deliveries {
    shared: Arc<Shared>,
    tasks: TaskTracker,
    aborted: CancellationToken,
}

impl Deliveries {
    pub(super) fn new(responder: Arc<dyn Responder>, counters: Arc<Counters>, log: Arc<EventLog>) -> Self {
        Self {
            shared: Arc::new(Shared {
                at_once: Semaphore::new(responder.at_once()),
                responder,
                counters,
                log,
            }),
            tasks: TaskTracker::new(),
            aborted: CancellationToken::new(),
        }
    }

    /// Delivers `response` to request `id` of `kind` after `latency`.
    pub(super) fn post(&self, id: RequestId, kind: &str, latency: Duration, response: Response) {
        let (shared, kind) = (self.shared.clone(), kind.to_owned());
        let aborted = self.aborted.clone();
        self.tasks.spawn(async move {
            let delivery = async {
                if !latency.is_zero() {
                    sleep(latency).await;
                }
                shared.deliver(id, &kind, &response).await;
            };
            if aborted.run_until_cancelled(delivery).await.is_none() {
                shared.lose(id, &kind, "the downstream shuts down");
            }
        });
    }

    /// Waits for pending deliveries, for `grace` at most; the others are lost.
    pub(super) async fn drain(&self, grace: Duration) {
        self.tasks.close();
        if timeout(grace, self.tasks.wait()).await.is_err() {
            tracing::warn!(responses = self.tasks.len(), "responses lost: the downstream stops");
            self.aborted.cancel();
            self.tasks.wait().await;
        }
    }
}

impl Shared {
    async fn deliver(&self, id: RequestId, kind: &str, response: &Response) {
        self.counters.responses.add();
        self.log.write(Some(id), kind, "response");
        let due = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            let result = {
                // Acquiring fails only once the semaphore is closed, and it never is.
                let _permit = self.at_once.acquire().await;
                self.responder.respond(response).await
            };
            let (why, wait) = match result {
                Ok(delivered) => return self.delivered(id, kind, delivered),
                Err(NotDelivered::Refused(why)) => return self.lose(id, kind, &why),
                Err(NotDelivered::Retry { why, after }) => (why, after.unwrap_or(pause)),
            };
            if due.elapsed() + wait > OFFER_TIME {
                return self.lose(id, kind, &why);
            }
            tracing::debug!(request = %id, kind, why, "offer the response again");
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
        self.log.write(Some(id), kind, event);
    }

    fn lose(&self, id: RequestId, kind: &str, why: &str) {
        self.counters.responses_lost.add();
        self.log.write(Some(id), kind, "response_lost");
        tracing::warn!(request = %id, kind, why, "response lost");
    }
}
