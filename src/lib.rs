#![doc = include_str!("../README.md")]

pub mod adaptive_timeout;
pub mod api_key;
pub mod cli;
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
