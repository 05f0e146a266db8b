//! Breaks a running Tidegate on purpose, and checks afterwards that every promise held.
//!
//! A run starts a private cluster, API nodes, workers and a simulated downstream as processes, lets callers submit to
//! them, and injects faults with a seed. When all is at rest again, the [`checker`] judges what the tables, the
//! downstream's log and the callers' ledger say. `docs/reliability.md` tells what is promised.

mod beat;
pub mod booker;
pub mod checker;
pub mod cluster;
pub mod evidence;
pub mod fleet;
pub mod inject;
pub mod journal;
mod launcher;
pub mod ledger;
pub mod load;
pub mod measure;
pub mod mutants;
pub mod options;
pub mod pooler;
pub mod proxy;
mod quotas;
pub mod receiver;
pub mod report;
pub mod run;
pub mod scene;
pub mod server;
pub mod standby;
pub mod turns;
pub mod unit;
