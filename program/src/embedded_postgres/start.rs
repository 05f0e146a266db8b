//! Starting the server, or joining the one that runs.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::thread;
use std::time::{Duration, Instant};

use super::layout::{Layout, make_private};
use super::{EmbeddedPostgresError, Server, cluster, postmaster};

/// The size from which the log is renamed at the next start, in bytes.
const LOG_LIMIT: u64 = 32 * 1024 * 1024;

/// Part of Postgres's message when sessions of a killed server still use the cluster's shared memory.
const STILL_IN_USE: &str = "is still in use";

impl Server {
    /// Makes the cluster if there is none, and starts its server unless it accepts connections. The
    /// caller holds the start lock.
    pub(super) fn ensure_running(&self) -> Result<(), EmbeddedPostgresError> {
        for directory in [&self.layout.root.join("log"), &self.layout.socket_directory] {
            make_private(directory, &self.account)?;
        }
        self.make_cluster_if_missing()?;
        if join(&self.layout)? {
            return Ok(());
        }
        cluster::write_settings(&self.layout, self.durable)?;
        rotate_long_log(&self.layout);
        self.start()
    }

    fn start(&self) -> Result<(), EmbeddedPostgresError> {
        let layout = &self.layout;
        let pg_ctl = self.bin.join("pg_ctl");
        let deadline = Instant::now() + postmaster::TIME_LIMIT;
        loop {
            postmaster::clear_leftovers(layout)?;
            let log_before = log_length(layout);
            let output = self
                .account
                .command(&pg_ctl)
                .args(["start", "--silent", "--wait"])
                .arg(format!("--timeout={}", postmaster::TIME_LIMIT.as_secs()))
                .arg(format!("--pgdata={}", layout.data.display()))
                .arg(format!("--log={}", layout.log.display()))
                .arg(format!("--options=--config-file=\"{}\"", layout.settings.display()))
                .output()
                .map_err(EmbeddedPostgresError::io("run", &pg_ctl))?;
            // A starter that was killed leaves a `pg_ctl` behind which may have been faster.
            if output.status.success() || join(layout)? {
                return Ok(());
            }
            let log = log_since(layout, log_before);
            if !log.contains(STILL_IN_USE) || Instant::now() >= deadline {
                return Err(EmbeddedPostgresError::program("pg_ctl start", &output, &log));
            }
            // Sessions notice the death of their server and end, each when it next waits for anything.
            thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Waits for a server that runs already to accept connections; `false` if none runs, or it ended.
fn join(layout: &Layout) -> Result<bool, EmbeddedPostgresError> {
    let Some(pid) = postmaster::running(layout) else {
        return Ok(false);
    };
    let still_running = || postmaster::running(layout) == Some(pid);
    postmaster::wait_until(layout, pid, "did not accept connections", || {
        postmaster::accepts_connections(layout) || !still_running()
    })?;
    Ok(still_running())
}

fn log_length(layout: &Layout) -> u64 {
    fs::metadata(&layout.log).map_or(0, |metadata| metadata.len())
}

/// The text appended to the log after its first `start` bytes, up to a size fit for a message.
fn log_since(layout: &Layout, start: u64) -> String {
    let mut text = Vec::new();
    let read = File::open(&layout.log).and_then(|mut log| {
        log.seek(SeekFrom::Start(start))?;
        log.take(8 * 1024).read_to_end(&mut text)
    });
    if let Err(error) = read {
        tracing::debug!(%error, "could not read the log of PostgreSQL");
    }
    String::from_utf8_lossy(&text).into_owned()
}

fn rotate_long_log(layout: &Layout) {
    if log_length(layout) > LOG_LIMIT
        && let Err(error) = fs::rename(&layout.log, layout.log.with_extension("log.old"))
    {
        tracing::warn!(%error, "could not rename the log of PostgreSQL");
    }
}
