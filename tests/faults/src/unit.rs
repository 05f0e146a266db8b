//! One process of the fleet: started, killed, frozen, and started again when it was not meant to end.

use std::{
    fs::OpenOptions,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    sync::{Mutex, oneshot},
    time::Instant,
};

use crate::{journal::Journal, proxy::Proxy};

/// A process that gives up within this time has not found its database, and is started again as a supervisor would.
const STARTING: Duration = Duration::from_secs(20);

/// How long a process may take to stop when it is asked to.
const STOPPING: Duration = Duration::from_secs(60);

/// A process of the fleet.
#[derive(Debug)]
pub struct Unit {
    /// Its name.
    pub name: String,
    /// Its way to the database.
    pub database: Proxy,
    program: PathBuf,
    arguments: Vec<String>,
    log: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    child: Option<Child>,
    since: Option<Instant>,
    /// How much memory it has needed at most, in KiB, over all its lives.
    most_memory: u64,
    given_up: u64,
    /// It is started with a log that has no reader.
    log_is_closed: bool,
}

impl Unit {
    /// Starts `program`; waits for its first line, which is returned.
    ///
    /// # Errors
    ///
    /// When it does not start, or says nothing.
    pub async fn start(
        name: &str,
        program: &Path,
        arguments: Vec<String>,
        database: Proxy,
        logs: &Path,
    ) -> anyhow::Result<(Arc<Self>, String)> {
        let unit = Self {
            name: name.to_owned(),
            database,
            program: program.to_owned(),
            arguments,
            log: logs.join(format!("{name}.log")),
            state: Mutex::default(),
        };
        let said = unit.spawn(&mut *unit.state.lock().await)?;
        let line = tokio::time::timeout(Duration::from_secs(60), said)
            .await
            .with_context(|| format!("{name} says nothing"))?
            .with_context(|| format!("{name} does not start: see {}", unit.log.display()))?;
        Ok((Arc::new(unit), line))
    }

    /// From now on it is started with these arguments.
    #[must_use]
    pub fn with_arguments(self: Arc<Self>, arguments: Vec<String>) -> Arc<Self> {
        Arc::into_inner(self)
            .map(|unit| Arc::new(Self { arguments, ..unit }))
            .unwrap_or_else(|| unreachable!("no other owner has it yet"))
    }

    fn spawn(&self, state: &mut State) -> anyhow::Result<oneshot::Receiver<String>> {
        let log = if state.log_is_closed {
            let (reader, writer) = std::io::pipe()?;
            drop(reader);
            Stdio::from(writer)
        } else {
            OpenOptions::new().append(true).create(true).open(&self.log)?.into()
        };
        let url = format!("postgres://tidegate@{}/{}?sslmode=disable", self.database.address, crate::server::DATABASE);
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .env("DATABASE_URL", url)
            .env("RUST_LOG", std::env::var("RUST_LOG").unwrap_or_else(|_| "warn".to_owned()))
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", self.program.display()))?;
        let (tell, said) = oneshot::channel();
        if let Some(stdout) = child.stdout.take() {
            tokio::spawn(async move {
                let mut lines = BufReader::new(stdout).lines();
                let mut tell = Some(tell);
                // Read on, because a closed pipe would fail its next line.
                while let Ok(Some(line)) = lines.next_line().await {
                    if let Some(tell) = tell.take() {
                        let _ = tell.send(line);
                    }
                }
            });
        }
        state.child = Some(child);
        state.since = Some(Instant::now());
        Ok(said)
    }

    /// SIGKILL. It stays dead until it is started again.
    ///
    /// # Errors
    ///
    /// When it cannot be signalled.
    pub async fn kill(&self) -> anyhow::Result<()> {
        let mut state = self.state.lock().await;
        state.note_memory();
        if let Some(mut child) = state.child.take() {
            child.kill().await?;
        }
        Ok(())
    }

    /// SIGTERM, and waits until it has ended. Returns whether it did so within its time, and well.
    ///
    /// # Errors
    ///
    /// When it cannot be signalled.
    pub async fn terminate(&self) -> anyhow::Result<bool> {
        let mut state = self.state.lock().await;
        state.note_memory();
        let Some(mut child) = state.child.take() else {
            return Ok(true);
        };
        signal(&child, Signal::SIGTERM)?;
        // A frozen process gets the signal only when it goes on, and the thaw waits for the lock that is held here.
        signal(&child, Signal::SIGCONT)?;
        match tokio::time::timeout(STOPPING, child.wait()).await {
            Ok(status) => {
                let status = status?;
                // It may not have come as far as to watch signals, or to find its database.
                let is_young = state.since.is_some_and(|since| since.elapsed() < STARTING);
                let gave_up = status.code() == Some(1) || status.signal() == Some(15);
                Ok(status.success() || (is_young && gave_up))
            }
            Err(_) => {
                child.kill().await?;
                Ok(false)
            }
        }
    }

    /// Starts it again, if it does not run.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub async fn revive(&self) -> anyhow::Result<()> {
        let mut state = self.state.lock().await;
        if state.child.is_none() {
            self.spawn(&mut state)?;
        }
        Ok(())
    }

    /// Starts it again, with its log or with one that has no reader.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub async fn revive_with_log(&self, has_log: bool) -> anyhow::Result<()> {
        self.state.lock().await.log_is_closed = !has_log;
        self.revive().await
    }

    /// SIGSTOP or SIGCONT: to others it looks as if it had died, and then it wakes up.
    ///
    /// # Errors
    ///
    /// When it cannot be signalled.
    pub async fn freeze(&self, frozen: bool) -> anyhow::Result<()> {
        let state = self.state.lock().await;
        if let Some(child) = &state.child {
            signal(child, if frozen { Signal::SIGSTOP } else { Signal::SIGCONT })?;
        }
        Ok(())
    }

    /// Starts it again when it has ended by itself. That is wrong, unless it had just begun and found no database.
    pub async fn look_after(&self, journal: &Journal) {
        let mut state = self.state.lock().await;
        state.note_memory();
        let Some(Ok(Some(status))) = state.child.as_mut().map(Child::try_wait) else {
            return;
        };
        if state.since.is_some_and(|since| since.elapsed() < STARTING) && status.code() == Some(1) {
            state.given_up += 1;
        } else {
            journal.wrong(format!("{} ended by itself ({status}): see {}", self.name, self.log.display()));
        }
        if let Err(error) = self.spawn(&mut state) {
            journal.wrong(format!("{} cannot be started again: {error:#}", self.name));
        }
    }

    /// How much memory it has needed at most, in KiB.
    pub async fn most_memory(&self) -> u64 {
        let mut state = self.state.lock().await;
        state.note_memory();
        state.most_memory
    }

    /// How often it gave up because it found no database when it was started.
    pub async fn given_up(&self) -> u64 {
        self.state.lock().await.given_up
    }
}

impl State {
    fn note_memory(&mut self) {
        let Some(id) = self.child.as_ref().and_then(Child::id) else {
            return;
        };
        let most = std::fs::read_to_string(format!("/proc/{id}/status")).ok().and_then(|status| {
            let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
            line.split_whitespace().nth(1)?.parse().ok()
        });
        self.most_memory = self.most_memory.max(most.unwrap_or_default());
    }
}

fn signal(child: &Child, signal: Signal) -> anyhow::Result<()> {
    if let Some(id) = child.id() {
        kill(Pid::from_raw(i32::try_from(id)?), signal)?;
    }
    Ok(())
}
