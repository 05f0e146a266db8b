//! Callers that poll requests, and some that cancel them.

use std::{sync::Arc, time::Duration};

use rand::{Rng, rngs::StdRng};
use serde_json::Value;
use uuid::Uuid;

use super::Load;
use crate::{
    journal::now_us,
    ledger::{Cancel, Told},
    scene,
};

/// What a caller asks about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    Poll,
    /// A poll that waits for the end.
    Wait,
    Cancel,
}

impl Load {
    pub(super) async fn ask(self: Arc<Self>, mut random: StdRng) {
        while !self.stop.is_cancelled() {
            tokio::select! {
                () = self.stop.cancelled() => return,
                () = tokio::time::sleep(Duration::from_millis(random.random_range(20..120))) => {}
            }
            let Some(promise) = self.ledger.pick(random.random_range(0..2_000)) else {
                continue;
            };
            let Some(kind) = scene::KINDS.iter().find(|kind| kind.name == promise.kind) else {
                continue;
            };
            let question = if random.random_bool(0.03) {
                Question::Cancel
            } else if random.random_bool(0.1) {
                Question::Wait
            } else {
                Question::Poll
            };
            self.ask_about(kind, promise.id, question, &mut random).await;
        }
    }

    /// Asks a node about a request; returns the body about a request that has ended.
    pub(super) async fn ask_about(
        &self,
        kind: &scene::Kind,
        id: Uuid,
        question: Question,
        random: &mut StdRng,
    ) -> Option<Value> {
        let node = self.nodes[random.random_range(0..self.nodes.len())];
        let url = format!("http://{node}/v1/{}/{id}", kind.path);
        let call = match question {
            Question::Cancel => self.client.delete(url),
            Question::Wait => self.client.get(url).header("Prefer", "wait=2"),
            Question::Poll => self.client.get(url),
        };
        let answer = call.send().await.ok()?;
        if self.put_off(&answer, "a question").is_some() {
            return None;
        }
        let status = answer.status().as_u16();
        let body = answer.json::<Value>().await.ok()?;
        let at_us = now_us();
        if question == Question::Cancel && matches!(status, 200 | 202 | 409) {
            self.ledger.entries().cancels.push(Cancel { id, status, at_us });
        }
        match status {
            200 => {
                self.told(&body);
                return Some(body);
            }
            202 | 409 => {}
            404 => self.ledger.entries().told.push(Told {
                id,
                state: "unknown".to_owned(),
                at_us,
                executed: None,
                retryable: false,
            }),
            _ => self.journal.wrong(format!("{node} answered {status} to a question about {id}: {body}")),
        }
        None
    }

    /// Stores the end in a body.
    pub(super) fn told(&self, body: &Value) {
        let state = if body["outcome"] == "cancelled" { Some("cancelled") } else { body["state"].as_str() };
        let id = body["job_id"].as_str().and_then(|id| id.parse().ok());
        if let (Some(id), Some(state)) = (id, state) {
            self.ledger.entries().told.push(Told {
                id,
                state: state.to_owned(),
                at_us: now_us(),
                executed: body["executed"].as_str().map(str::to_owned),
                retryable: body["error"]["retryable"] == true,
            });
        }
    }
}
