//! The running server: recognising it, and stopping it.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, lchown};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::EmbeddedPostgresError;
use super::layout::Layout;

/// How long a server may take to start, to recover or to stop.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(60);

/// How often a condition without a notification is checked.
const POLL: Duration = Duration::from_millis(20);

/// A process id no system gives out, and which Postgres accepts in a pid file.
const UNUSED_PID: &str = "2147483647";

/// The postmaster of the cluster in `layout`, if it runs.
///
/// The pid file alone is no proof: after a crash it names a dead process, or, when the system has reused the
/// number, an unrelated one. So the process has to be a `postgres` that runs on this
/// cluster.
pub(super) fn running(layout: &Layout) -> Option<u32> {
    let content = fs::read_to_string(layout.pid_file()).ok()?;
    let pid = content.lines().next()?.trim().parse().ok()?;
    is_postmaster(pid, layout).then_some(pid)
}

fn is_postmaster(pid: u32, layout: &Layout) -> bool {
    let proc = Path::new("/proc").join(pid.to_string());
    if !Path::new("/proc/self/cmdline").exists() {
        return ps_shows_postmaster(pid, &layout.data);
    }
    let Ok(command_line) = fs::read(proc.join("cmdline")) else {
        return false;
    };
    // The command line of a zombie is empty. Backends replace theirs with a title.
    let mut arguments = command_line.split(|byte| *byte == 0);
    let is_postgres = arguments.next().is_some_and(|program| {
        Path::new(&*String::from_utf8_lossy(program))
            .file_name()
            .is_some_and(|name| name == "postgres" || name == "postmaster")
    });
    let data = layout.data.as_os_str().as_encoded_bytes();
    let of_this_cluster = arguments.any(|argument| argument == data)
        || fs::read_link(proc.join("cwd")).is_ok_and(|directory| directory == layout.data);
    let owner = |path: &Path| fs::metadata(path).map(|metadata| metadata.uid()).ok();
    is_postgres && of_this_cluster && owner(&proc) == owner(&layout.data)
}

/// The same check where there is no `/proc`, as on macOS.
fn ps_shows_postmaster(pid: u32, data: &Path) -> bool {
    let listed =
        Command::new("ps").args(["-ww", "-o", "args=", "-p"]).arg(pid.to_string()).stdin(Stdio::null()).output();
    listed.is_ok_and(|output| {
        let line = String::from_utf8_lossy(&output.stdout);
        line.contains("postgres") && line.contains(&*data.to_string_lossy())
    })
}

/// Whether the server reports that it is ready and accepts a connection.
pub(super) fn accepts_connections(layout: &Layout) -> bool {
    // `pg_ctl` waits for the eighth line of the pid file, too: during crash recovery the
    // socket exists already, but every session is refused.
    let content = fs::read_to_string(layout.pid_file()).unwrap_or_default();
    let ready = content.lines().nth(7).is_some_and(|line| line.trim() == "ready");
    ready && UnixStream::connect(layout.socket()).is_ok()
}

/// Removes the files of a server that is gone, which would prevent the start of a new one. The
/// caller holds the start lock and has checked that the server does not run.
///
/// Postgres refuses to start while the process in its pid file exists, even if that is a program
/// of another user or a zombie. Deleting the file would also remove the
/// identity of the shared memory, by which Postgres notices that sessions of the dead server are
/// still alive and writing. So only the number is replaced, by one that no process has.
pub(super) fn clear_leftovers(layout: &Layout) -> Result<(), EmbeddedPostgresError> {
    remove(&layout.socket())?;
    remove(&layout.socket_lock())?;
    let file = layout.pid_file();
    let content = match fs::read_to_string(&file) {
        Ok(content) => content,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(EmbeddedPostgresError::io("read", &file)(error)),
    };
    let Some((_, rest)) = content.split_once('\n') else {
        // Truncated, by a full disk or a power failure: it has no other line to keep.
        return remove(&file);
    };
    let new = layout.data.join("postmaster.pid.new");
    remove(&new)?;
    let replace = || {
        // Made anew: root must not follow a link the server's account could have put here.
        let mut replacement = fs::File::create_new(&new)?;
        replacement.write_all(format!("{UNUSED_PID}\n{rest}").as_bytes())?;
        let owner = fs::metadata(&layout.data)?;
        lchown(&new, Some(owner.uid()), Some(owner.gid()))?;
        fs::rename(&new, &file)
    };
    replace().map_err(EmbeddedPostgresError::io("replace", &file))
}

fn remove(file: &Path) -> Result<(), EmbeddedPostgresError> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(EmbeddedPostgresError::io("remove", file)(error)),
        _ => Ok(()),
    }
}

/// Stops the server if it runs: sessions are ended, everything is written out, and the process is
/// gone when this returns. The caller holds the start lock.
///
/// This is `pg_ctl stop -m fast -w`, except that it never signals a process which is not the
/// server, and does without the Postgres programs, which may have been replaced meanwhile.
pub(super) fn stop(layout: &Layout) -> Result<(), EmbeddedPostgresError> {
    end(layout, Signal::SIGINT, "did not stop")?;
    if !layout.socket_directory.starts_with(&layout.root)
        && let Err(error) = fs::remove_dir(&layout.socket_directory)
    {
        tracing::debug!(%error, "could not remove the directory of the socket");
    }
    Ok(())
}

/// Kills the server as a crash would, and returns the process id it had.
pub(super) fn crash(layout: &Layout) -> Result<Option<u32>, EmbeddedPostgresError> {
    end(layout, Signal::SIGKILL, "did not die")
}

fn end(layout: &Layout, signal: Signal, complaint: &'static str) -> Result<Option<u32>, EmbeddedPostgresError> {
    let Some(pid) = running(layout) else {
        return Ok(None);
    };
    match kill(Pid::from_raw(pid.cast_signed()), signal) {
        Ok(()) | Err(Errno::ESRCH) => {}
        Err(errno) => {
            let action = "signal the process named in";
            return Err(EmbeddedPostgresError::io(action, &layout.pid_file())(errno.into()));
        }
    }
    wait_until(layout, pid, complaint, || !is_postmaster(pid, layout))?;
    Ok(Some(pid))
}

/// Waits for `condition`, which concerns the server's process `pid`.
pub(super) fn wait_until(
    layout: &Layout,
    pid: u32,
    complaint: &'static str,
    condition: impl Fn() -> bool,
) -> Result<(), EmbeddedPostgresError> {
    let deadline = Instant::now() + TIME_LIMIT;
    while !condition() {
        if Instant::now() >= deadline {
            return Err(EmbeddedPostgresError::TimedOut { pid, complaint, log: layout.log.clone() });
        }
        thread::sleep(POLL);
    }
    Ok(())
}
