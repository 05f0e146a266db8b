//! All integration tests, in one program: each module answers a question of its own.
#![allow(missing_docs, clippy::unwrap_used, unreachable_pub, reason = "tests")]

mod claimers;
mod cli;
mod clock;
mod comments;
mod deadlines;
mod embedded_postgres;
mod fencing;
mod guards;
mod history;
mod http;
mod kinds;
mod limits;
mod lock_order;
mod low_water_mark;
mod pacing_model;
mod plans;
mod positions;
mod races;
mod recovery;
mod responses;
mod retry_after;
mod roles;
mod snapshot;
mod sql_docs;
mod state_machine_docs;
mod submit;
mod submit_keys;
mod support;
mod tidy;
mod transitions;
mod worker;
