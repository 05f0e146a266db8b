//! All integration tests, in one program: each module answers a question of its own.
#![allow(missing_docs, clippy::unwrap_used, unreachable_pub, reason = "tests")]

mod canonical;
mod clock;
mod constraints;
mod deadlines;
mod duties;
mod embedded_postgres;
mod fencing;
mod guards;
mod hand_edits;
mod history;
mod kinds;
mod partitions;
mod positions;
mod retry_after;
mod roles;
mod smoke;
mod submit;
mod submit_keys;
mod support;
mod transitions;
