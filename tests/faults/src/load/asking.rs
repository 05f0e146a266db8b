//! Callers that poll requests, and some that cancel them.

use std::{sync::Arc, time::Duration};

use rand::{Rng, rngs::StdRng};
use serde_json::Value;

use super::Load;
use crate::{journal::now_us, ledger::Told, scene};

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
            let node = self.nodes[random.random_range(0..self.nodes.len())];
            let url = format!("http://{node}/v1/{}/{}", kind.path, promise.id);
            let call = if random.random_bool(0.03) {
                self.client.delete(url)
            } else if random.random_bool(0.1) {
                self.client.get(url).header("Prefer", "wait=2")
            } else {
                self.client.get(url)
            };
            let Ok(answer) = call.send().await else {
                continue;
            };
            if self.put_off(&answer, "a question").is_some() {
                continue;
            }
            let status = answer.status().as_u16();
            let Ok(body) = answer.json::<Value>().await else {
                continue;
            };
            match status {
                200 => self.told(&body),
                202 | 409 => {}
                404 => self.ledger.entries().told.push(Told {
                    id: promise.id,
                    state: "unknown".to_owned(),
                    at_us: now_us(),
                }),
                _ => self.journal.wrong(format!(
                    "{node} answered {status} to a question about {}: {body}",
                    promise.id
                )),
            }
        }
    }

    /// Stores the end in a body.
    pub(super) fn told(&self, body: &Value) {
        let state = if body["outcome"] == "cancelled" {
            Some("cancelled")
        } else {
            body["state"].as_str()
        };
        let id = body["job_id"].as_str().and_then(|id| id.parse().ok());
        if let (Some(id), Some(state)) = (id, state) {
            self.ledger.entries().told.push(Told {
                id,
                state: state.to_owned(),
                at_us: now_us(),
            });
        }
    }
}
