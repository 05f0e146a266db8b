//! All integration tests, in one program: each module answers a question of its own.
#![allow(missing_docs, clippy::unwrap_used, unreachable_pub, reason = "tests")]

mod claimers;
mod embedded_postgres;
mod limits;
mod lock_order;
mod low_water_mark;
mod pacing_model;
mod plans;
mod races;
mod recovery;
mod responses;
mod smoke;
mod snapshot;
mod support;
