//! How the programs around `PostgreSQL` are started.

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::chown,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::Context;
use nix::unistd::{Gid, Uid, User};
use tokio::process::{Child, Command};

/// How the programs are started. `PostgreSQL` refuses to run as root: then all run as another account.
#[derive(Debug)]
pub(crate) struct Launcher {
    tools: PathBuf,
    directory: PathBuf,
    account: Option<(Uid, Gid)>,
}

impl Launcher {
    pub(crate) fn new(tools: &Path, directory: &Path) -> anyhow::Result<Self> {
        let account = if Uid::effective().is_root() {
            let user = User::from_name("postgres")?
                .or(User::from_name("nobody")?)
                .context("PostgreSQL does not run as root: create the account postgres")?;
            Some((user.uid, user.gid))
        } else {
            None
        };
        Ok(Self { tools: fs::canonicalize(tools)?, directory: directory.to_owned(), account })
    }

    pub(crate) fn own(&self, path: &Path) -> anyhow::Result<()> {
        if let Some((uid, gid)) = self.account {
            chown(path, Some(uid.as_raw()), Some(gid.as_raw()))?;
        }
        Ok(())
    }

    /// Starts a program below the tools, with its log.
    pub(crate) fn start(&self, name: &str, program: &str, arguments: &[&str]) -> anyhow::Result<Child> {
        let log = fs::OpenOptions::new().append(true).create(true).open(self.directory.join(format!("{name}.log")))?;
        let mut command = Command::new(self.tools.join(program));
        command
            .args(arguments)
            .current_dir(&self.directory)
            .env("LD_LIBRARY_PATH", self.tools.join("root/usr/lib/x86_64-linux-gnu"))
            .env("HOME", &self.directory)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true);
        if let Some((uid, gid)) = self.account {
            command.uid(uid.as_raw()).gid(gid.as_raw());
        }
        command.spawn().with_context(|| format!("cannot start {program} in {}", self.tools.display()))
    }
}

/// A port of loopback that is free now.
pub(crate) fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
