//! The account of the server, and how its programs are run.

use std::env;
use std::fs;
use std::os::unix::fs::{MetadataExt, lchown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::unistd::{Uid, User, geteuid};

use super::EmbeddedPostgresError;

/// The account that the Postgres programs run as: this process's own or, if this process is root, the user that it
/// switches to, because Postgres refuses to be root.
#[derive(Debug)]
pub(super) struct Account(Option<User>);

impl Account {
    /// This process's own user, unless that is root: then the owner of `data` if it exists (a cluster made by an
    /// ordinary user stays that user's), else `postgres`, else `nobody`.
    pub(super) fn choose(data: &Path) -> Result<Self, EmbeddedPostgresError> {
        if !geteuid().is_root() {
            return Ok(Self(None));
        }
        let not_root = |user: &User| !user.uid.is_root();
        let owner = fs::metadata(data).map(|metadata| Uid::from_raw(metadata.uid()));
        let owner = owner.ok().and_then(|uid| User::from_uid(uid).ok().flatten());
        let user = owner
            .filter(not_root)
            .or_else(|| User::from_name("postgres").ok().flatten())
            .or_else(|| User::from_name("nobody").ok().flatten())
            .filter(not_root)
            .ok_or(EmbeddedPostgresError::NoUnprivilegedUser)?;
        Ok(Self(Some(user)))
    }

    /// Whether the account is another one than this process's own.
    pub(super) fn is_other(&self) -> bool {
        self.0.is_some()
    }

    /// The account's user id.
    pub(super) fn uid(&self) -> u32 {
        self.0.as_ref().map_or_else(geteuid, |user| user.uid).as_raw()
    }

    /// A command that runs `program` as this account, in a process group of its own so that a
    /// Ctrl-C meant for this process does not reach it.
    ///
    /// It starts in `/`, which every user can enter, and without the variables that change where
    /// Postgres programs connect to or which language they speak.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir("/").process_group(0).stdin(Stdio::null()).env("LC_ALL", "C");
        for (name, _) in env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"PG") {
                command.env_remove(name);
            }
        }
        if let Some(user) = &self.0 {
            command
                .uid(user.uid.as_raw())
                .gid(user.gid.as_raw())
                .env("HOME", "/")
                .env("USER", &user.name)
                .env("LOGNAME", &user.name);
        }
        command
    }

    /// Gives `path` to the account.
    pub(super) fn own(&self, path: &Path) -> Result<(), EmbeddedPostgresError> {
        let Some(user) = &self.0 else {
            return Ok(());
        };
        lchown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw()))
            .map_err(EmbeddedPostgresError::io("give to the PostgreSQL user the directory", path))
    }

    /// Checks that the account can enter `directory`, with a test that runs as that account: mode
    /// bits alone do not decide it, because of access control lists and mount options.
    pub(super) fn check_reach(&self, directory: &Path) -> Result<(), EmbeddedPostgresError> {
        let Some(user) = &self.0 else {
            return Ok(());
        };
        let shell = Path::new("/bin/sh");
        let mut way: Vec<&Path> = directory.ancestors().collect();
        way.reverse();
        let script = r#"for d; do test -x "$d" || { printf %s "$d"; exit 1; }; done"#;
        let output = self
            .command(shell)
            .args(["-c", script, "sh"])
            .args(way)
            .output()
            .map_err(EmbeddedPostgresError::io("run", shell))?;
        if output.status.success() {
            return Ok(());
        }
        Err(EmbeddedPostgresError::Unreachable {
            directory: directory.to_owned(),
            barrier: String::from_utf8_lossy(&output.stdout).into_owned().into(),
            user: user.name.clone(),
        })
    }
}
