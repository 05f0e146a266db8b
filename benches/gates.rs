//! Gates: refusals per second and their statements, whether callers that obey `Retry-After` find the gate open, and the cost of
//! strict gates for a submission.
//!
//! Three parts, `submissions`, `obeying` and `strict`; arguments choose among them. API nodes (`tidegate serve`) and the load
//! are processes of their own.
#![allow(
    missing_docs,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "a benchmark stops at the first thing that is wrong"
)]

#[path = "gates/load.rs"]
mod load;
#[path = "gates/node.rs"]
mod node;
#[path = "gates/obeying.rs"]
mod obeying;
#[path = "gates/strict.rs"]
mod strict;
#[path = "gates/submissions.rs"]
mod submissions;
mod support;
#[path = "gates/wire.rs"]
mod wire;

fn main() {
    let arguments: Vec<_> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some(load::COMMAND) => tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
            .block_on(load::run(&arguments[2])),
        Some(load::NOTHING_COMMAND) => support::run(load::serve_nothing()),
        _ => support::run(measure(&arguments[1..])),
    }
}

async fn measure(arguments: &[String]) {
    let chosen: Vec<_> = arguments.iter().filter(|argument| !argument.starts_with("--")).collect();
    let wanted = |part: &str| chosen.is_empty() || chosen.iter().any(|name| *name == part);
    let location = support::location().await;
    if wanted("submissions") {
        submissions::measure(&location).await;
    }
    if wanted("obeying") {
        obeying::measure(&location).await;
    }
    if wanted("strict") {
        strict::measure(&location).await;
    }
}

/// The median.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
