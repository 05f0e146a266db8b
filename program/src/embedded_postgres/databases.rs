//! Databases inside the cluster, made with `psql` over the server's socket.

use std::path::Path;
use std::process::Output;
use std::thread;
use std::time::{Duration, Instant};

use super::cluster::SUPERUSER;
use super::{EmbeddedPostgresError, Server};

/// How long to try while another session has the template database open.
const TIME_LIMIT: Duration = Duration::from_secs(30);

impl Server {
    /// Makes the database `name` unless it exists, however many processes do the same at once.
    pub(super) fn ensure_database(&self, name: &str) -> Result<(), EmbeddedPostgresError> {
        let literal = name.replace('\'', "''");
        let identifier = name.replace('"', "\"\"");
        let exists = format!("SELECT 1 FROM pg_database WHERE datname = '{literal}'");
        let create = format!("CREATE DATABASE \"{identifier}\"");
        let deadline = Instant::now() + TIME_LIMIT;
        loop {
            let found = self.psql(&exists)?;
            if !found.status.success() {
                return Err(EmbeddedPostgresError::program("psql", &found, ""));
            }
            if found.stdout.starts_with(b"1") {
                return Ok(());
            }
            let created = self.psql(&create)?;
            if created.status.success() {
                return Ok(());
            }
            // duplicate_database and unique_violation: another process made it meanwhile.
            // object_in_use: another session is connected to the template, or copies it.
            let message = String::from_utf8_lossy(&created.stderr);
            let passing = ["42P04", "23505", "55006"].iter().any(|state| message.contains(state));
            if !passing || Instant::now() >= deadline {
                return Err(EmbeddedPostgresError::program("psql", &created, ""));
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn psql(&self, statement: &str) -> Result<Output, EmbeddedPostgresError> {
        let own = self.bin.join("psql");
        let program = if own.is_file() { &own } else { Path::new("psql") };
        self.account
            .command(program)
            .args(["-X", "-w", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1"])
            .args(["-v", "VERBOSITY=verbose"])
            .arg("-h")
            .arg(&self.layout.socket_directory)
            .args(["-p", "5432", "-U", SUPERUSER, "-d", "postgres"])
            .arg("-c")
            .arg(statement)
            .output()
            .map_err(EmbeddedPostgresError::io("run", program))
    }
}
