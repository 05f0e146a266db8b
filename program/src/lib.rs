//! The program `tidegate`, and what other programs of Tidegate share with it: where the database is, a private
//! PostgreSQL, logs, traces.

pub mod cli;
pub mod database_location;
pub mod embedded_postgres;
pub mod logs;
pub mod traces;
