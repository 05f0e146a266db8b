//! What `tidegate-evm` does on a chain.
#![allow(missing_docs, clippy::unwrap_used, unreachable_pub, reason = "tests")]

#[path = "../../../tests/support/mod.rs"]
mod support;

mod allocation;
mod anvil;
mod counter;
mod cut;
mod endpoints;
mod keeper;
mod kills;
mod loss;
mod mutants;
mod node;
mod noted;
mod orders;
mod outcomes;
mod process;
mod pruned;
mod resume;
mod scenarios;
mod scene;
mod watcher;
