//! What `tidegate-fhevm` does on a chain.
#![allow(missing_docs, clippy::unwrap_used, unreachable_pub, reason = "tests")]

#[path = "../../tests/support/mod.rs"]
mod support;

mod commands;
mod dropped_reverts;
mod duplicates;
mod funds;
mod lives;
mod moves;
mod pool;
mod readiness;
mod relayer;
mod reorg;
mod restarts;
mod reverts;
mod scene;
mod shares;
mod signers;
mod watching;
