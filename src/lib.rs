//! A request relay on PostgreSQL, in front of a downstream that is slow, rate-limited and sometimes unavailable.
//!
//! [`Tidegate`] is a program's way in. This one submits a request, sends it with a stage, and waits for the response:
//!
//! ```no_run
#![doc = include_str!("../examples/hello.rs")]
//! ```
//!
//! `examples/` has more: submissions in a transaction of your own (`outbox`), checks before each send
//! (`custom_readiness`), effects that commit with a receipt (`exactly_once_effect`). Each takes `DATABASE_URL`. The package
//! `tidegate-node` puts an HTTP API in front.

mod api_key;
mod client;
mod coalescer;
mod database;
mod doctor;
mod error;
#[doc(hidden)]
pub mod internals;
mod json_text;
mod listener;
mod lock;
mod maintenance;
mod metrics;
mod news;
mod recovery;
pub mod request;
pub mod retry_after;
mod schema;
mod shutdown;
mod sql_files;
pub mod stage;
mod store;
mod traces;
mod worker;

pub use crate::{
    client::{Error, Respond, RespondMany, RunningWorker, Singleton, Submit, Target, Tidegate, Worker},
    stage::Stages,
};
#[doc(inline)]
pub use crate::{
    error::StoreError,
    schema::{MigrateError, Migrations, StatementError},
    store::{Cancelled, Eta, Kind, Lease, Outlook, Responded, Response, Submitted, Ticket},
    worker::WorkerError,
};
