//! All integration tests, in one program: each module answers a question of its own.
#![allow(missing_docs, clippy::unwrap_used, unreachable_pub, reason = "tests")]

mod claimers;
mod cli;
mod comments;
mod embedded_postgres;
mod http;
mod limits;
mod lock_order;
mod low_water_mark;
mod pacing_model;
mod plans;
mod races;
mod recovery;
mod responses;
mod snapshot;
mod sql_docs;
mod state_machine_docs;
mod support;
mod tidy;
mod worker;
