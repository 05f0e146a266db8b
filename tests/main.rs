//! All integration tests, in one program: each module answers a question of its own.
#![allow(missing_docs, clippy::unwrap_used, unreachable_pub, reason = "tests")]

mod comments;
mod embedded_postgres;
mod http;
mod smoke;
mod sql_docs;
mod state_machine_docs;
mod support;
mod worker;
