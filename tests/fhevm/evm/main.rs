//! What `tidegate-evm` does on a chain.
#![allow(missing_docs, clippy::unwrap_used, unreachable_pub, reason = "tests")]

#[path = "../../support/mod.rs"]
mod support;

mod allocation;
mod anvil;
mod cut;
mod endpoints;
mod keeper;
mod loss;
mod mutants;
mod node;
mod orders;
mod resume;
mod scene;
mod watcher;
