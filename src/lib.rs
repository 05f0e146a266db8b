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
//! Below [`Tidegate`] are a method for each SQL function ([`store`]), the engine that runs stages ([`worker`]), the HTTP
//! API ([`http`]), and the policies (the crate `tidegate-policy`).

pub mod adaptive_timeout;
pub mod api_key;
pub mod cli;
mod client;
mod coalescer;
pub mod config;
pub mod database;
pub mod embedded_postgres;
pub mod error;
mod file_limit;
pub mod gate;
pub mod http;
pub mod listener;
mod lock;
pub mod maintenance;
pub mod news;
pub mod request;
pub mod retry_after;
pub mod schema;
pub mod shutdown;
pub mod stage;
pub mod store;
pub mod telemetry;
pub mod webhook;
pub mod worker;

pub use crate::{
    client::{Error, Respond, RunningWorker, Submit, Target, Tidegate, Worker},
    stage::Stages,
    store::{Kind, Submitted},
};
