//! Runs of the fault suite on fleets of its own: random faults, and a failover. `make nightly` runs them, `make test` does
//! not: each takes a minute.
#![allow(missing_docs, clippy::unwrap_used, unreachable_pub, reason = "tests")]

#[path = "../../../support/mod.rs"]
mod support;

mod failover;
mod mutants;
mod random;
mod turns;
