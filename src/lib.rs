//! A request relay on PostgreSQL, in front of a downstream that is slow, rate-limited and sometimes unavailable.
//!
//! [`Tidegate`] is a program's way in. This one submits a request, sends it with a stage, and waits for the response:
//!
//! ```no_run
#![doc = include_str!("../examples/hello.rs")]
//! ```
//!
//! `examples/` has more: submissions in a transaction of your own (`outbox`), an HTTP API in front (`http_gateway`),
//! checks before each send (`custom_readiness`), effects that commit with a receipt (`exactly_once_effect`). Each takes
//! `DATABASE_URL`.
//!
//! # Features
//!
//! All are on by default. Without them (`default-features = false`) everything on this page is there, but [`webhook`].
//!
//! - `server`: the HTTP API, the delivery of webhooks, and metrics in the format of Prometheus.
//! - `cli`: the program `tidegate`; needs `server` and `embedded-postgres`.
//! - `embedded-postgres`: a private PostgreSQL, started from the programs that are installed.
//! - `tls`: connections to PostgreSQL with TLS.

mod client;
mod coalescer;
#[cfg(feature = "cli")]
mod file_limit;
mod json_text;
mod lock;
pub mod request;
pub mod retry_after;
mod sql_files;
pub mod stage;
#[cfg(feature = "server")]
pub mod webhook;

// Outside the interface: for Tidegate's own programs, tests and benchmarks. These may change in any version.
#[doc(hidden)]
pub mod api_key;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod config;
#[doc(hidden)]
pub mod database;
#[cfg(feature = "embedded-postgres")]
#[doc(hidden)]
pub mod embedded_postgres;
#[doc(hidden)]
pub mod error;
#[cfg(feature = "server")]
#[doc(hidden)]
pub mod gate;
#[cfg(feature = "server")]
#[doc(hidden)]
pub mod http;
#[doc(hidden)]
pub mod listener;
#[doc(hidden)]
pub mod maintenance;
#[doc(hidden)]
pub mod news;
#[cfg(feature = "server")]
pub mod node;
#[doc(hidden)]
pub mod schema;
#[doc(hidden)]
pub mod shutdown;
#[doc(hidden)]
pub mod store;
#[doc(hidden)]
pub mod telemetry;
#[doc(hidden)]
pub mod worker;

pub use crate::{
    client::{Error, Respond, RunningWorker, Singleton, Submit, Target, Tidegate, Worker},
    stage::Stages,
};
#[doc(inline)]
pub use crate::{
    error::StoreError,
    schema::{MigrateError, Migrations, StatementError},
    store::{Cancelled, Eta, Kind, Lease, Outlook, Responded, Submitted, Ticket},
    worker::WorkerError,
};
