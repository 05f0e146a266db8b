//! The relayer's HTTP API, over PostgreSQL alone: the stages are simulated.
#![allow(missing_docs, clippy::unwrap_used, unreachable_pub, reason = "tests")]

#[path = "../../../tests/support/mod.rs"]
mod support;

mod accepted;
mod bodies;
mod database_away;
mod duplicates;
mod fields;
mod health;
mod keys;
mod node;
mod processes;
mod schema;
mod states;
