//! Callers that submit again under the same key, whatever became of it, and cancel in every phase. Some obey the answers.

use std::{sync::Arc, time::Duration};

use rand::{Rng, rngs::StdRng};
use serde_json::Value;
use uuid::Uuid;

use super::{Load, Submission, Way, asking::Question};
use crate::scene;

/// How often a submission is made at most, before another takes its turn.
const TIMES: std::ops::Range<usize> = 2..7;

/// For how long after its submission a request is cancelled.
const PHASES: Duration = Duration::from_millis(500);

/// How many polls, each of which waits two seconds, see an end.
const POLLS: usize = 6;

impl Load {
    /// Submits one request after the other, each several times under its key.
    pub(super) async fn repeat(self: Arc<Self>, obeys: bool, mut random: StdRng) {
        let (lossy, others): (Vec<&scene::Kind>, Vec<_>) = scene::KINDS
            .iter()
            .filter(|kind| scene::is_lossy(kind) || scene::REPEATED.contains(&kind.name))
            .partition(|kind| scene::is_lossy(kind));
        while !self.stop.is_cancelled() {
            let kinds = if random.random_bool(0.6) { &lossy } else { &others };
            let kind = *kinds[random.random_range(0..kinds.len())];
            let submission = Submission {
                way: Some(Way::Http),
                submitter: None,
                ..self.submission(kind, 1, false, true, &mut random)
            };
            for _ in 0..random.random_range(TIMES) {
                // Beside the rate of the other callers, who may be behind.
                let pause = Duration::from_millis(random.random_range(0..600));
                if self.stop.is_cancelled() || !self.wait(pause).await {
                    return;
                }
                let Some(id) = self.submit_over_http(&submission, &mut random).await else {
                    continue;
                };
                let end = self.follow(&kind, id, &mut random).await;
                if obeys && end.is_some_and(|end| end["error"]["retryable"] != true) {
                    break;
                }
                self.ledger.entries().repeated += 1;
            }
            // Others submit it again later, over HTTP and, if they need no callback, by SQL.
            let way = submission.way.filter(|_| submission.calls_back);
            self.remember(Submission { way, ..submission });
        }
    }

    /// Waits for the end of a request, and cancels some; none for those that are submitted again before their end.
    async fn follow(&self, kind: &scene::Kind, id: Uuid, random: &mut StdRng) -> Option<Value> {
        if random.random_bool(0.4) {
            // From the queue to the receipt, more often early.
            let phase = PHASES.mul_f64(random.random::<f64>().powi(2));
            if !self.wait(phase).await {
                return None;
            }
            self.ask_about(kind, id, Question::Cancel, random).await;
        }
        if random.random_bool(0.2) {
            return None;
        }
        for _ in 0..POLLS {
            if self.stop.is_cancelled() {
                return None;
            }
            let end = self.ask_about(kind, id, Question::Wait, random).await;
            if end.is_some() {
                return end;
            }
            // A node that is away answers at once.
            self.wait(Duration::from_millis(200)).await;
        }
        None
    }
}
