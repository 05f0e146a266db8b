//! Invalid calls: each gets a clear refusal, and affects no other caller.

use std::sync::Arc;

use rand::{Rng, SeedableRng, rngs::StdRng};

use super::Load;

/// Sends a few calls of every sort of nonsense.
pub async fn nonsense(load: &Arc<Load>, count: usize, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    for number in 0..count {
        let node = load.nodes[random.random_range(0..load.nodes.len())];
        let post = |path: &str| load.client.post(format!("http://{node}/v1/{path}"));
        let json = |call: reqwest::RequestBuilder| call.header("Content-Type", "application/json");
        let (call, expected) = match number % 6 {
            0 => (json(post("direct")).body("{\"mark\": "), 400),
            1 => (json(post("no-such-kind")).body("{}"), 404),
            2 => (post("direct").header("Content-Type", "text/plain").body("{}"), 415),
            3 => (json(post("direct")).body(format!("\"{}\"", "x".repeat(10 << 20))), 413),
            4 => (json(post("direct/batch")).body("[]"), 400),
            _ => (json(post("direct")).body("[".repeat(100_000)), 400),
        };
        let answer = call.send().await;
        load.ledger.entries().nonsense += 1;
        let Ok(answer) = answer else {
            continue;
        };
        let status = answer.status().as_u16();
        if load.put_off(&answer, "nonsense").is_some() {
            continue;
        }
        let media_type =
            answer.headers().get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
        if status != expected || media_type != "application/problem+json" {
            load.journal.wrong(format!("{node} answered {status} ({media_type}) to nonsense that deserves {expected}"));
        }
    }
}
