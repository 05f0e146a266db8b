//! A private Postgres server made from the machine's own Postgres programs, for when no
//! `DATABASE_URL` is given.
//!
//! The server lives in one directory ([`EmbeddedPostgres::default_directory`]) and listens on a
//! Unix socket only. Any number of processes share it: each holds an [`EmbeddedPostgres`] for as
//! long as it needs the server, the first one starts the server, and once the last one is gone a
//! *keeper* process ([`keep`]) stops it cleanly. Processes find each other through file locks in
//! the directory, which the kernel releases however a process ends:
//!
//! * `users.lock`, shared by all users; taken before the check whether the server runs.
//! * `start.lock`, held by the process that starts or stops the server.
//! * `keeper.lock`, held by the keeper.
//!
//! Everything here blocks, for seconds when a cluster has to be made; async callers use
//! `spawn_blocking`, also for dropping an [`EmbeddedPostgres`] that has no keeper.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

mod account;
mod binaries;
mod cluster;
mod databases;
mod error;
mod keeper;
mod layout;
mod locks;
mod postmaster;
mod start;

use account::Account;
use layout::Layout;
use locks::FileLock;

pub use binaries::{BinarySearch, major_version};
pub use error::EmbeddedPostgresError;
pub use keeper::keep;

/// What the URL of a database escapes: all but the unreserved characters of RFC 3986, so that names stay readable.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// How to run the private server.
#[derive(Debug, Clone)]
pub struct Options {
    /// The directory everything is kept in; made if missing.
    pub directory: PathBuf,
    /// Whether committed data survives a crash of the machine. `false` turns `fsync` and
    /// `full_page_writes` off, which is for tests. It has an effect on the process that starts the
    /// server; one that joins a running server takes it as it is.
    pub durable: bool,
    /// The command (program and arguments) of a process that calls [`keep`] with the directory. It
    /// is started when the server has no keeper. With `None`, the last user to drop its
    /// [`EmbeddedPostgres`] stops the server itself, and one that is killed leaves it running.
    pub keeper: Option<Vec<OsString>>,
}

/// A running private server, in use by this process until the value is dropped.
#[derive(Debug)]
pub struct EmbeddedPostgres {
    server: Server,
    /// Whether a keeper stops the server after the last user.
    kept: bool,
    /// The shared lock on `users.lock`; `None` only while the value is being taken apart.
    using: Option<FileLock>,
}

/// The paths of a server, and the account and programs that run it.
#[derive(Debug)]
struct Server {
    layout: Layout,
    account: Account,
    bin: PathBuf,
    durable: bool,
}

impl EmbeddedPostgres {
    /// The directory used unless one is chosen: `TIDEGATE_POSTGRES_DIR` if that is set; else, for
    /// root, `/var/lib/tidegate/postgres`; else `tidegate/postgres` in `XDG_DATA_HOME`, which is
    /// `~/.local/share` by default.
    pub fn default_directory() -> PathBuf {
        let variable = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(directory) = variable("TIDEGATE_POSTGRES_DIR") {
            return directory;
        }
        if nix::unistd::geteuid().is_root() {
            return PathBuf::from("/var/lib/tidegate/postgres");
        }
        variable("XDG_DATA_HOME")
            .filter(|directory| directory.is_absolute())
            .unwrap_or_else(|| env::home_dir().unwrap_or_default().join(".local/share"))
            .join("tidegate/postgres")
    }

    /// Joins the server in the directory, after making and starting it if need be. Returns when it
    /// accepts connections.
    ///
    /// When this process is root, the server runs as the user `postgres`, or else `nobody`.
    ///
    /// # Errors
    ///
    /// If Postgres is not installed, the directory cannot be used, or the server does not start.
    pub fn start(options: &Options) -> Result<Self, EmbeddedPostgresError> {
        let directory = std::path::absolute(&options.directory)
            .map_err(EmbeddedPostgresError::io("find the directory", &options.directory))?;
        // Before any directory is made: a machine without PostgreSQL stays unchanged.
        let search = BinarySearch::from_environment();
        search.find(cluster::major_version(&Layout::of(&directory))?)?;
        let (layout, account) = Layout::prepare(&directory)?;
        // In this order: a keeper about to stop the server checks for users under the start lock.
        let using = FileLock::shared(&layout.users_lock)?;
        let starting = FileLock::exclusive(&layout.start_lock)?;
        let server =
            Server { bin: search.find(cluster::major_version(&layout)?)?, layout, account, durable: options.durable };
        server.ensure_running()?;
        let kept = match &options.keeper {
            Some(command) => keeper::ensure_keeper(&server.layout, command)?,
            None => false,
        };
        drop(starting);
        Ok(Self { server, kept, using: Some(using) })
    }

    /// The URL of a database on this server, `postgres://tidegate@<socket directory>:5432/<name>`
    /// with the directory percent-encoded as the host. sqlx and `psql` read this form. The port is
    /// spelled out so that a `PGPORT` in the environment has no effect.
    pub fn url(&self, database: &str) -> String {
        let socket_directory = self.server.layout.socket_directory.as_os_str();
        let host = percent_encode(socket_directory.as_encoded_bytes(), ESCAPED);
        let database = percent_encode(database.as_bytes(), ESCAPED);
        format!("postgres://{}@{host}:5432/{database}", cluster::SUPERUSER)
    }

    /// The directory the server is kept in, absolute and without symbolic links.
    pub fn directory(&self) -> &Path {
        &self.server.layout.root
    }

    /// The directory of the Postgres programs in use.
    pub fn bin(&self) -> &Path {
        &self.server.bin
    }

    /// Makes the database `name` unless it exists. Safe to call from several processes at once.
    ///
    /// # Errors
    ///
    /// If `psql` cannot be run or the server refuses.
    pub fn ensure_database(&self, name: &str) -> Result<(), EmbeddedPostgresError> {
        self.server.ensure_database(name)
    }

    /// The process id of the server's first process, or `None` if the server does not run.
    pub fn postmaster_pid(&self) -> Option<u32> {
        postmaster::running(&self.server.layout)
    }

    /// Kills the server's first process with SIGKILL, as a crash would, and waits until it is gone.
    /// Returns the process id it had, or `None` if the server did not run. For crash tests;
    /// [`EmbeddedPostgres::restart`] brings the server back.
    ///
    /// # Errors
    ///
    /// If the process cannot be signalled.
    pub fn kill(&self) -> Result<Option<u32>, EmbeddedPostgresError> {
        postmaster::crash(&self.server.layout)
    }

    /// Stops the server if it runs, ending all sessions, and starts it again.
    ///
    /// # Errors
    ///
    /// If the server does not stop or does not start.
    pub fn restart(&self) -> Result<(), EmbeddedPostgresError> {
        let _starting = FileLock::exclusive(&self.server.layout.start_lock)?;
        postmaster::stop(&self.server.layout)?;
        self.server.ensure_running()
    }

    /// Ends this use of the server and, unless another process uses it, stops it now, without waiting
    /// for the keeper.
    ///
    /// # Errors
    ///
    /// If the server does not stop within 60 s.
    pub fn stop(mut self) -> Result<(), EmbeddedPostgresError> {
        self.using = None;
        self.stop_if_unused()
    }

    fn stop_if_unused(&self) -> Result<(), EmbeddedPostgresError> {
        let _starting = FileLock::exclusive(&self.server.layout.start_lock)?;
        if FileLock::try_exclusive(&self.server.layout.users_lock)?.is_some() {
            postmaster::stop(&self.server.layout)?;
        }
        Ok(())
    }
}

impl Drop for EmbeddedPostgres {
    fn drop(&mut self) {
        if self.using.take().is_some()
            && !self.kept
            && let Err(error) = self.stop_if_unused()
        {
            tracing::warn!(%error, "could not stop the private PostgreSQL server");
        }
    }
}
