//! Making a cluster, and the settings it runs with.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::layout::{Layout, make_private};
use super::{EmbeddedPostgresError, Server};

/// The role that owns everything in the cluster.
pub(super) const SUPERUSER: &str = "tidegate";

/// The prefix of directories in which clusters are made before they get their name.
const UNFINISHED: &str = "data.tmp-";

/// The major version that made the cluster, or `None` if there is no cluster yet.
pub(super) fn major_version(layout: &Layout) -> Result<Option<u32>, EmbeddedPostgresError> {
    let file = layout.data.join("PG_VERSION");
    match fs::read_to_string(&file) {
        Ok(version) => version.trim().parse().map(Some).map_err(|_| {
            let reason = format!("{} does not hold a version number", file.display());
            EmbeddedPostgresError::unusable(&layout.root, reason)
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(EmbeddedPostgresError::io("read", &file)(error)),
    }
}

impl Server {
    /// Makes the cluster unless there is one. The caller holds the start lock.
    ///
    /// The cluster is made under another name and renamed when it is complete, so that an
    /// incomplete one is never taken for a complete one.
    pub(super) fn make_cluster_if_missing(&self) -> Result<(), EmbeddedPostgresError> {
        let layout = &self.layout;
        remove_unfinished(layout);
        if major_version(layout)?.is_some() {
            return Ok(());
        }
        let unfinished = layout.root.join(format!("{UNFINISHED}{}", std::process::id()));
        self.make_cluster(&unfinished).inspect_err(|_| remove_unfinished(layout))?;
        fs::rename(&unfinished, &layout.data).map_err(|error| match error.kind() {
            io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::NotADirectory => {
                EmbeddedPostgresError::unusable(&layout.root, "`data` in it is no PostgreSQL cluster")
            }
            _ => EmbeddedPostgresError::io("rename", &unfinished)(error),
        })?;
        File::open(&layout.root)
            .and_then(|directory| directory.sync_all())
            .map_err(EmbeddedPostgresError::io("sync", &layout.root))
    }

    fn make_cluster(&self, directory: &Path) -> Result<(), EmbeddedPostgresError> {
        let initdb = |locale: &str| {
            make_private(directory, &self.account)?;
            let program = self.bin.join("initdb");
            self.account
                .command(&program)
                .arg("-D")
                .arg(directory)
                .args(["--encoding=UTF8", locale, "--username", SUPERUSER])
                .args(["--auth-local=trust", "--auth-host=reject", "--no-instructions"])
                .args((!self.durable).then_some("--no-sync"))
                .output()
                .map_err(EmbeddedPostgresError::io("run", &program))
        };
        // `C.UTF-8` sorts bytewise and still has letters beyond ASCII, but not every system has it.
        let output = initdb("--locale=C.UTF-8")?;
        if output.status.success() || initdb("--no-locale")?.status.success() {
            return Ok(());
        }
        Err(EmbeddedPostgresError::program("initdb", &output, ""))
    }
}

/// Removes clusters whose creation was interrupted. One that cannot be removed only takes up space.
fn remove_unfinished(layout: &Layout) {
    for entry in fs::read_dir(&layout.root).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name.as_encoded_bytes().starts_with(UNFINISHED.as_bytes())
            && let Err(error) = fs::remove_dir_all(entry.path())
        {
            tracing::warn!(directory = %entry.path().display(), %error, "could not remove an unfinished PostgreSQL cluster");
        }
    }
}

/// Writes the settings file the server is started with. It includes the cluster's own file, whose
/// settings give way to the ones here; `ALTER SYSTEM` gives way to neither.
///
/// The file is outside the cluster's directory: when this process is root, it must not write where
/// the server's account could have put a symbolic link.
pub(super) fn write_settings(layout: &Layout, durable: bool) -> Result<(), EmbeddedPostgresError> {
    // Servers without durability are for tests: they make and drop many small databases, so autovacuum would only
    // disturb them, and a long write-ahead log would only take up memory. Their sessions are short: each maps the
    // buffers anew, and calls functions in PL/pgSQL, which the server loads once for all of them.
    let more = if durable {
        "fsync = on\n\
         full_page_writes = on\n\
         max_wal_size = 2GB\n\
         shared_buffers = 256MB\n"
    } else {
        "fsync = off\n\
         full_page_writes = off\n\
         max_wal_size = 256MB\n\
         autovacuum = off\n\
         jit = off\n\
         max_connections = 1000\n\
         shared_buffers = 64MB\n\
         shared_preload_libraries = 'plpgsql'\n"
    };
    let settings = format!(
        "# Written at every start of the server; changes made here are lost.\n\
         # Put your own into data/postgresql.conf or use ALTER SYSTEM.\n\
         include 'data/postgresql.conf'\n\
         listen_addresses = ''\n\
         port = 5432\n\
         unix_socket_directories = '\"{}\"'\n\
         unix_socket_permissions = 0700\n\
         max_connections = 200\n\
         logging_collector = off\n\
         log_destination = 'stderr'\n\
         {more}",
        layout.socket_directory.display(),
    );
    let new = &layout.settings.with_extension("conf.new");
    let write = || {
        let mut file = File::create(new)?;
        file.set_permissions(fs::Permissions::from_mode(0o644))?;
        file.write_all(settings.as_bytes())?;
        file.sync_all()?;
        fs::rename(new, &layout.settings)
    };
    write().map_err(EmbeddedPostgresError::io("write", &layout.settings))
}
