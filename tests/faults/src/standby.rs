//! A synchronous standby: a second private cluster that has everything the first has acknowledged, and takes over from
//! it.

use std::{
    fs,
    io::Write,
    os::unix::fs::{MetadataExt, chown},
    path::Path,
    process::Stdio,
    time::Duration,
};

use anyhow::Context;
use tokio::{process::Command, time::sleep};

use crate::server::Server;

/// The interval between checks of a slow operation, and their number.
const LOOK: Duration = Duration::from_millis(100);
const LOOKS: u32 = 600;

/// Copies `primary` into `directory`, starts the copy as its standby, and makes the primary wait for it at each commit.
///
/// # Errors
///
/// When the copy cannot be made, or does not follow.
pub async fn follow(primary: &Server, directory: &Path, keeper: &Path) -> anyhow::Result<Server> {
    let data = directory.join("data");
    fs::create_dir_all(directory)?;
    let socket = primary.socket()?;
    let host = socket.parent().context("a socket is in a directory")?;
    let copied = Command::new(primary.program("pg_basebackup")?)
        .arg("-D")
        .arg(&data)
        .arg("-h")
        .arg(host)
        .args(["-p", "5432", "-U", "tidegate", "-X", "stream", "-c", "fast", "-R"])
        // The log that the standby has not received yet is kept, however often the primary is killed.
        .args(["-C", "-S", "standby"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .context("pg_basebackup")?;
    anyhow::ensure!(copied.status.success(), "pg_basebackup: {}", String::from_utf8_lossy(&copied.stderr));
    let mut settings = fs::OpenOptions::new().append(true).open(data.join("postgresql.auto.conf"))?;
    writeln!(settings, "wal_retrieve_retry_interval = '200ms'")?;
    give_to_the_owner_of(&primary.directory()?.join("data"), &data)?;
    let standby = Server::start(directory, keeper).await?;

    let mut session = primary.session().await?;
    for statement in ["alter system set synchronous_standby_names = '*'", "select pg_reload_conf()"] {
        sqlx::query(statement).execute(&mut session).await?;
    }
    let synchronous = "select exists (select from pg_stat_replication where sync_state = 'sync')";
    for _ in 0..LOOKS {
        if sqlx::query_scalar(synchronous).fetch_one(&mut session).await? {
            return Ok(standby);
        }
        sleep(LOOK).await;
    }
    anyhow::bail!("the standby does not follow")
}

/// Makes a standby the primary; returns when it takes writes.
///
/// # Errors
///
/// When it does not.
pub async fn promote(standby: &Server) -> anyhow::Result<()> {
    let mut session = standby.session().await?;
    let promoted: bool = sqlx::query_scalar("select pg_promote()").fetch_one(&mut session).await?;
    anyhow::ensure!(promoted, "the standby is not promoted in time");
    Ok(())
}

/// `PostgreSQL` runs as another account when this process is root.
fn give_to_the_owner_of(pattern: &Path, directory: &Path) -> anyhow::Result<()> {
    let owner = fs::metadata(pattern)?;
    if fs::metadata(directory)?.uid() == owner.uid() {
        return Ok(());
    }
    let mut left = vec![directory.to_owned()];
    while let Some(path) = left.pop() {
        chown(&path, Some(owner.uid()), Some(owner.gid()))?;
        if path.is_dir() {
            for entry in fs::read_dir(&path)? {
                left.push(entry?.path());
            }
        }
    }
    Ok(())
}
