//! Starting the server, or joining the one that runs.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::account::Account;
use super::layout::Layout;
use super::{EmbeddedPostgresError, cluster, postmaster};

/// The size from which the log is put aside at the next start, in bytes.
const LOG_LIMIT: u64 = 32 * 1024 * 1024;

/// What Postgres says when sessions of a killed server still use the cluster's shared memory.
const STILL_IN_USE: &str = "is still in use";

/// Makes the cluster if there is none and sees to it that its server accepts connections. The
/// caller holds the start lock.
pub(super) fn ensure_running(
    layout: &Layout,
    account: &Account,
    bin: &Path,
    durable: bool,
) -> Result<(), EmbeddedPostgresError> {
    layout.make_log_and_socket_directories(account)?;
    cluster::make_if_missing(layout, account, bin, durable)?;
    if join(layout)? {
        return Ok(());
    }
    cluster::write_settings(layout, durable)?;
    put_aside_long_log(layout);
    start(layout, account, bin)
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

fn start(layout: &Layout, account: &Account, bin: &Path) -> Result<(), EmbeddedPostgresError> {
    let pg_ctl = bin.join("pg_ctl");
    let deadline = Instant::now() + postmaster::PATIENCE;
    loop {
        postmaster::clear_leftovers(layout)?;
        let log_before = log_length(layout);
        let output = account
            .command(&pg_ctl)
            .args(["start", "--silent", "--wait", "--timeout"])
            .arg(postmaster::PATIENCE.as_secs().to_string())
            .arg("--pgdata")
            .arg(&layout.data)
            .arg("--log")
            .arg(&layout.log)
            .arg("--options")
            .arg(format!("--config-file=\"{}\"", layout.settings.display()))
            .output()
            .map_err(EmbeddedPostgresError::io("run", &pg_ctl))?;
        if output.status.success() {
            return Ok(());
        }
        // A starter that was killed leaves a `pg_ctl` behind which may have been faster.
        if join(layout)? {
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

fn log_length(layout: &Layout) -> u64 {
    fs::metadata(&layout.log).map_or(0, |metadata| metadata.len())
}

/// What was appended to the log after its first `start` bytes, up to a size fit for a message.
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

fn put_aside_long_log(layout: &Layout) {
    if log_length(layout) > LOG_LIMIT
        && let Err(error) = fs::rename(&layout.log, layout.log.with_extension("log.old"))
    {
        tracing::warn!(%error, "could not put aside the log of PostgreSQL");
    }
}
