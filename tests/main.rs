//! All integration tests, in one program: each module answers a question of its own.
#![allow(missing_docs, clippy::unwrap_used, unreachable_pub, reason = "tests")]

mod claimers;
mod cli;
mod comments;
mod embedded_postgres;
mod http;
mod lock_order;
mod races;
mod recovery;
mod responses;
mod sql_docs;
mod state_machine_docs;
mod support;
mod tidy;
mod worker;
