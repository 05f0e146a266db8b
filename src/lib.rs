#![doc = include_str!("../README.md")]

pub mod cli;
pub mod config;
pub mod database;
pub mod embedded_postgres;
pub mod error;
pub mod http;
pub mod listener;
pub mod maintenance;
pub mod request;
pub mod schema;
pub mod shutdown;
pub mod stage;
pub mod store;
pub mod telemetry;
pub mod webhook;
pub mod worker;
