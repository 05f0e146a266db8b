//! The paths in the directory of a private server.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::EmbeddedPostgresError;
use super::account::Account;

/// The longest path of a Unix socket, in bytes.
const SOCKET_PATH_LIMIT: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// The name Postgres gives its socket; port 5432 never changes, as nothing listens on a network.
const SOCKET_NAME: &str = ".s.PGSQL.5432";

/// The paths of one private server.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    /// Everything below is in here.
    pub(super) root: PathBuf,
    /// The cluster itself.
    pub(super) data: PathBuf,
    /// The server's log.
    pub(super) log: PathBuf,
    /// The settings the server is started with.
    pub(super) settings: PathBuf,
    /// Locked shared by every user of the server.
    pub(super) users_lock: PathBuf,
    /// Locked alone by the process that starts or stops the server.
    pub(super) start_lock: PathBuf,
    /// Locked alone by the keeper.
    pub(super) keeper_lock: PathBuf,
    /// Where the server's socket is.
    pub(super) socket_directory: PathBuf,
}

impl Layout {
    /// The layout of the server in `root`, an absolute path without symbolic links.
    pub(super) fn of(root: &Path) -> Self {
        let run = root.join("run");
        let bytes = run.as_os_str().as_encoded_bytes();
        // libpq takes a comma in a host for the end of the first of several, even an encoded one.
        let usable = bytes.len() + 1 + SOCKET_NAME.len() <= SOCKET_PATH_LIMIT && !bytes.contains(&b',');
        Self {
            data: root.join("data"),
            log: root.join("log").join("postgres.log"),
            settings: root.join("tidegate.conf"),
            users_lock: root.join("users.lock"),
            start_lock: root.join("start.lock"),
            keeper_lock: root.join("keeper.lock"),
            // Always in `/tmp`, as `TMPDIR` differs between processes that have to find the same
            // socket, and may be closed to the account the server runs as.
            socket_directory: if usable {
                run
            } else {
                let hash = Sha256::digest(root.as_os_str().as_encoded_bytes());
                PathBuf::from(format!("/tmp/tidegate-{hash:x}"))
            },
            root: root.to_owned(),
        }
    }

    /// Makes `directory` if it is missing and returns the layout in it and the account to use.
    pub(super) fn prepare(directory: &Path) -> Result<(Self, Account), EmbeddedPostgresError> {
        let account = Account::choose(&directory.join("data"))?;
        // Directories that root makes above the cluster have to be open to the account; the cluster
        // itself and the socket are in directories that are closed to other accounts.
        make_directories(directory, if account.is_other() { 0o755 } else { 0o700 })
            .map_err(EmbeddedPostgresError::io("make the directory", directory))?;
        let root = directory.canonicalize().map_err(EmbeddedPostgresError::io("find the directory", directory))?;
        // `pg_ctl` and `initdb` hand paths to a shell inside double quotes, unescaped.
        let unsafe_character = |c: char| c.is_control() || "\"'`$\\".contains(c);
        if root.to_str().is_none_or(|path| path.contains(unsafe_character)) {
            let reason =
                "the path contains a quote, a backslash, a dollar sign or a control character, or is not UTF-8";
            return Err(EmbeddedPostgresError::unusable(directory, reason));
        }
        account.check_reach(&root)?;
        Ok((Self::of(&root), account))
    }

    /// The server's socket.
    pub(super) fn socket(&self) -> PathBuf {
        self.socket_directory.join(SOCKET_NAME)
    }

    /// The lock file Postgres puts beside its socket.
    pub(super) fn socket_lock(&self) -> PathBuf {
        self.socket_directory.join(format!("{SOCKET_NAME}.lock"))
    }

    /// The file in which a running server writes its process id.
    pub(super) fn pid_file(&self) -> PathBuf {
        self.data.join("postmaster.pid")
    }
}

/// Makes `directory` if it is missing and gives it to the account, mode 0700.
pub(super) fn make_private(directory: &Path, account: &Account) -> Result<(), EmbeddedPostgresError> {
    if let Err(error) = fs::DirBuilder::new().mode(0o700).create(directory)
        && error.kind() != io::ErrorKind::AlreadyExists
    {
        return Err(EmbeddedPostgresError::io("make the directory", directory)(error));
    }
    let found = fs::symlink_metadata(directory).map_err(EmbeddedPostgresError::io("examine", directory))?;
    if found.is_dir() && found.uid() == account.uid() && found.mode() & 0o777 == 0o700 {
        return Ok(());
    }
    // In `/tmp` another user may have made the directory first, to listen in the server's place.
    let ours = found.uid() == account.uid() || found.uid() == nix::unistd::geteuid().as_raw();
    if !found.is_dir() || !ours {
        let reason = "it exists and is not a directory of the user PostgreSQL runs as";
        return Err(EmbeddedPostgresError::unusable(directory, reason));
    }
    fs::set_permissions(directory, fs::Permissions::from_mode(0o700))
        .map_err(EmbeddedPostgresError::io("close to others", directory))?;
    account.own(directory)
}

/// Makes `directory` and its missing parents, each with `mode` whatever the umask is.
fn make_directories(directory: &Path, mode: u32) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    if let Some(parent) = directory.parent() {
        make_directories(parent, mode)?;
    }
    match fs::create_dir(directory) {
        Ok(()) => fs::set_permissions(directory, fs::Permissions::from_mode(mode)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}
