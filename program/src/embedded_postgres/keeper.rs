//! The process that stops the server when no process uses it any more.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::layout::Layout;
use super::locks::FileLock;
use super::{EmbeddedPostgresError, postmaster};

/// How often the keeper checks whether a process uses the server.
const POLL: Duration = Duration::from_millis(500);

/// How long the server must be unused before it is stopped.
const IDLE: Duration = Duration::from_secs(3);

/// How long a keeper tries to become the keeper. A process that checks whether there is one holds
/// the lock for an instant, which must not make a new keeper give up.
const CANDIDACY: Duration = Duration::from_millis(500);

/// Waits until no process has used the server in `directory` for about three seconds, and then stops it. Returns when
/// the server is stopped, or at once if another process does this already.
///
/// The command in [`Options::keeper`](super::Options::keeper) has to call this. It blocks;
/// async callers use `spawn_blocking`.
///
/// # Errors
///
/// If the locks in the directory cannot be taken, or the server does not stop within 60 s.
pub fn keep(directory: &Path) -> Result<(), EmbeddedPostgresError> {
    let root = directory.canonicalize().map_err(EmbeddedPostgresError::io("find the directory", directory))?;
    let layout = Layout::of(&root);
    let Some(role) = become_keeper(&layout)? else {
        return Ok(());
    };
    let mut idle_since = None;
    loop {
        // The lock is released at once, so that a new user hardly ever waits for it.
        let used = FileLock::try_exclusive(&layout.users_lock)?.is_none();
        if used {
            idle_since = None;
        } else if idle_since.get_or_insert_with(Instant::now).elapsed() >= IDLE {
            let starting = FileLock::exclusive(&layout.start_lock)?;
            // New users lock `users.lock` first and `start.lock` second: one that comes after this
            // check waits for the stop to finish, and then starts the server again.
            if FileLock::try_exclusive(&layout.users_lock)?.is_some() {
                let stopped = postmaster::stop(&layout);
                // In this order, so that the next starter finds that it needs a new keeper.
                drop(role);
                drop(starting);
                return stopped;
            }
            idle_since = None;
        }
        thread::sleep(POLL);
    }
}

fn become_keeper(layout: &Layout) -> Result<Option<FileLock>, EmbeddedPostgresError> {
    let deadline = Instant::now() + CANDIDACY;
    loop {
        let role = FileLock::try_exclusive(&layout.keeper_lock)?;
        if role.is_some() || Instant::now() >= deadline {
            return Ok(role);
        }
        thread::sleep(POLL / 10);
    }
}

/// Starts a keeper unless there is one. The caller holds the start lock.
///
/// Returns whether there is a keeper now; a command that cannot be started is logged.
pub(super) fn ensure_keeper(layout: &Layout, command: &[OsString]) -> Result<bool, EmbeddedPostgresError> {
    if FileLock::try_exclusive(&layout.keeper_lock)?.is_none() {
        return Ok(true);
    }
    let Some((program, arguments)) = command.split_first() else {
        return Ok(false);
    };
    let spawned = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn();
    match spawned {
        Ok(mut child) => {
            // Without a wait, a keeper that ends before this process would stay a zombie.
            thread::spawn(move || child.wait());
            Ok(true)
        }
        Err(error) => {
            tracing::warn!(program = %program.display(), %error, "could not start the keeper of PostgreSQL");
            Ok(false)
        }
    }
}
