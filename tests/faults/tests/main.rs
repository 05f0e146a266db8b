//! Tests of the fault suite: a short run, a failover, and a checker that finds errors.
#![allow(missing_docs, clippy::unwrap_used, unreachable_pub, reason = "tests")]

#[path = "../../support/mod.rs"]
mod support;

mod checker;
mod failover;
mod fault_table;
mod proxy;
mod retries;
mod short_run;
