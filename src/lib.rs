#![doc = include_str!("../README.md")]

pub mod database;
pub mod embedded_postgres;
pub mod error;
pub mod http;
pub mod request;
pub mod schema;
pub mod stage;
pub mod store;
