//! Tests of the fault suite: scenes of one fault each, and a checker that finds errors.
#![allow(missing_docs, clippy::unwrap_used, unreachable_pub, reason = "tests")]

#[path = "../../support/mod.rs"]
mod support;

mod checker;
mod fault_table;
mod proxy;
mod retries;
mod turns;
