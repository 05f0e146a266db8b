//! All integration tests, in one program: each module answers a question of its own.
#![allow(missing_docs, clippy::unwrap_used, unreachable_pub, reason = "tests")]

mod claim_fates;
mod claimers;
mod embedded_postgres;
mod endings;
mod inbox;
mod invariant_checker;
mod limits;
mod lock_order;
mod low_water_mark;
mod pacing_model;
mod plans;
mod races;
mod rates;
mod rebuilt_queues;
mod recovery;
mod recovery_at_once;
mod responses;
mod shares;
mod smoke;
mod snapshot;
mod support;
