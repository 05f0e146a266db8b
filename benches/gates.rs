//! Gates: refusals per second and what they ask of the database, whether callers who do what they are told find the gate
//! open, and what strict gates cost a submission.
//!
//! Three parts, `door`, `obeying` and `strict`; arguments choose among them. API nodes are `tidegate serve`, processes of
//! their own; so is whoever loads them.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "a benchmark stops at the first thing that is wrong"
)]

#[path = "gates/door.rs"]
mod door;
#[path = "gates/load.rs"]
mod load;
#[path = "gates/node.rs"]
mod node;
#[path = "gates/obeying.rs"]
mod obeying;
#[path = "gates/strict.rs"]
mod strict;
mod support;
#[path = "gates/wire.rs"]
mod wire;

use tidegate::{config::KEEPER_COMMAND, embedded_postgres};
use tokio::runtime::Builder;

fn main() {
    let arguments: Vec<_> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some(KEEPER_COMMAND) => embedded_postgres::keep(arguments[2].as_ref()).unwrap(),
        Some(load::COMMAND) => Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(load::run(&arguments[2])),
        Some(load::NOTHING_COMMAND) => Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(load::serve_nothing()),
        _ => Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(measure(&arguments[1..])),
    }
}

async fn measure(arguments: &[String]) {
    let chosen: Vec<_> = arguments
        .iter()
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    let wanted = |part: &str| chosen.is_empty() || chosen.iter().any(|name| *name == part);
    let location = support::location().await;
    if wanted("door") {
        door::measure(&location).await;
    }
    if wanted("obeying") {
        obeying::measure(&location).await;
    }
    if wanted("strict") {
        strict::measure(&location).await;
    }
}

/// The middle one.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
