//! Responses: each waits for its latency, then is offered until the relay takes it.

use std::{sync::Arc, time::Duration};

use tidegate::{internals::store::Response, request::RequestId};
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{NotDelivered, Responder, latency::pass, record::Record};

/// How long a response is offered before it counts as lost.
const OFFER_TIME: Duration = Duration::from_secs(60);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// All responses of one downstream that are not delivered yet.
pub(super) struct Deliveries {
    responder: Arc<dyn Responder>,
    at_once: Semaphore,
    record: Arc<Record>,
    tasks: TaskTracker,
    aborted: CancellationToken,
}

impl Deliveries {
    pub(super) fn new(responder: Arc<dyn Responder>, record: Arc<Record>) -> Self {
        Self {
            at_once: Semaphore::new(responder.at_once()),
            responder,
            record,
            tasks: TaskTracker::new(),
            aborted: CancellationToken::new(),
        }
    }

    /// Delivers `response` to request `id` of `kind` after `latency`.
    pub(super) fn post(self: &Arc<Self>, id: RequestId, kind: &str, latency: Duration, response: Response) {
        let (deliveries, kind) = (self.clone(), kind.to_owned());
        self.tasks.spawn(async move {
            let delivery = async {
                pass(latency).await;
                deliveries.deliver(id, &kind, &response).await;
            };
            if deliveries.aborted.run_until_cancelled(delivery).await.is_none() {
                deliveries.lose(id, &kind, "the downstream shuts down");
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

    async fn deliver(&self, id: RequestId, kind: &str, response: &Response) {
        self.record.note(id, kind, "response", |stats| stats.responses += 1);
        let due = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            let result = {
                // Acquiring fails only once the semaphore is closed, and it never is.
                let _permit = self.at_once.acquire().await;
                self.responder.respond(response).await
            };
            let (why, wait) = match result {
                Ok(outcome) => return self.delivered(id, kind, &outcome),
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

    fn delivered(&self, id: RequestId, kind: &str, outcome: &str) {
        let event = match outcome {
            "early" => "delivered_early",
            "late" => "delivered_late",
            _ => "delivered",
        };
        self.record.note(id, kind, event, |stats| {
            stats.responses_delivered += 1;
            stats.responses_early += u64::from(outcome == "early");
            stats.responses_late += u64::from(outcome == "late");
        });
    }

    fn lose(&self, id: RequestId, kind: &str, why: &str) {
        self.record.note(id, kind, "response_lost", |stats| stats.responses_lost += 1);
        tracing::warn!(request = %id, kind, why, "response lost");
    }
}
