//! The errors of the private server.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Output};

use super::postmaster::TIME_LIMIT;

/// Why the private Postgres server could not be found, started, used or stopped.
#[derive(Debug, thiserror::Error)]
pub enum EmbeddedPostgresError {
    /// No usable Postgres programs are installed, or only of the wrong version.
    #[error(
        "no {wanted} was found on this machine{found}. Install it (Debian and Ubuntu: \
         `apt-get install postgresql`; macOS: `brew install postgresql@17`), or use a server of \
         your own: `docker compose up`, or set DATABASE_URL. If PostgreSQL is installed somewhere \
         unusual, set TIDEGATE_POSTGRES_BIN to the directory that holds `postgres`, `initdb` and \
         `pg_ctl`"
    )]
    NotFound {
        /// The requested version, as words.
        wanted: String,
        /// The versions found and rejected, as the continuation of a sentence; empty if there are none.
        found: String,
    },
    /// `TIDEGATE_POSTGRES_BIN` names a directory without the Postgres programs.
    #[error(
        "TIDEGATE_POSTGRES_BIN is {}, but that directory does not hold `postgres`, `initdb` and \
         `pg_ctl`. Correct it or unset it. PostgreSQL is installed by `apt-get install postgresql` \
         (Debian and Ubuntu) or `brew install postgresql@17` (macOS); or use `docker compose up`, \
         or set DATABASE_URL", directory.display()
    )]
    ConfiguredBinariesMissing {
        /// The directory the variable names.
        directory: PathBuf,
    },
    /// The directory for the server cannot be used.
    #[error("cannot use {} as PostgreSQL's directory: {reason}. Set TIDEGATE_POSTGRES_DIR to another directory", directory.display())]
    UnusableDirectory {
        /// The requested directory.
        directory: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The account the server runs as cannot enter the directory.
    #[error(
        "PostgreSQL does not run as root, so it runs as the user `{user}`. This user may not enter {}, \
         and so cannot reach {}. Set TIDEGATE_POSTGRES_DIR to a directory `{user}` can reach, \
         or run Tidegate as an ordinary user", barrier.display(), directory.display()
    )]
    Unreachable {
        /// The requested directory.
        directory: PathBuf,
        /// The first directory on the way to it that is closed to the user.
        barrier: PathBuf,
        /// The name of the account.
        user: String,
    },
    /// The process is root and there is no account to run the server as.
    #[error(
        "PostgreSQL does not run as root, and this machine has neither a user `postgres` nor a user `nobody` to run it as"
    )]
    NoUnprivilegedUser,
    /// A file operation failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The operation, as a verb.
        action: &'static str,
        /// The file or program.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A Postgres program failed.
    #[error("`{program}` failed ({status}): {message}")]
    Program {
        /// The program's name.
        program: &'static str,
        /// Its exit status.
        status: ExitStatus,
        /// Its output, and for a failed start the new lines of the server's log.
        message: String,
    },
    /// The server did not start or stop in time.
    #[error("PostgreSQL (process {pid}) {complaint} within {} s; its log is {}", TIME_LIMIT.as_secs(), log.display())]
    TimedOut {
        /// The postmaster's process id.
        pid: u32,
        /// The operation that took too long, as the middle of a sentence.
        complaint: &'static str,
        /// The server's log file.
        log: PathBuf,
    },
}

impl EmbeddedPostgresError {
    /// A function that turns a system error into [`EmbeddedPostgresError::Io`].
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_owned(), source }
    }

    /// The error for a directory that cannot be used.
    pub(super) fn unusable(directory: &Path, reason: impl Into<String>) -> Self {
        Self::UnusableDirectory { directory: directory.to_owned(), reason: reason.into() }
    }

    /// The error for a program that ran and failed; `more` is appended to its output.
    pub(super) fn program(program: &'static str, output: &Output, more: &str) -> Self {
        let [stdout, stderr] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        let parts = [stdout.trim(), stderr.trim(), more.trim()];
        let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        Self::Program { program, status: output.status, message: parts.join("\n") }
    }
}
