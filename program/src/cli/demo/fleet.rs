//! The processes of the demo.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use crate::logs::print_err;

/// How long a process may take to start or to stop.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// An API node, a simulated downstream and three workers. All of them are killed when this is dropped.
pub(super) struct Fleet {
    /// The API's base URL.
    pub(super) api: String,
    /// The downstream's base URL.
    pub(super) downstream: String,
    processes: Vec<Process>,
}

struct Process {
    name: String,
    child: Child,
}

/// The place of the first worker among the processes.
const FIRST_WORKER: usize = 2;

impl Fleet {
    pub(super) async fn start(url: &str, rate: u32, concurrency: u32) -> anyhow::Result<Self> {
        let tidegate = std::env::current_exe().context("cannot find the path of this program")?;
        let worker = sibling(&tidegate, "tidegate-worker")?;

        let mut serve = command(&tidegate, url);
        serve.args(["serve", "--listen", "127.0.0.1:0"]);
        let (api_process, api) = start_listening("api", serve).await?;

        let mut simulated = command(&worker, url);
        simulated
            .args(["downstream", "--listen", "127.0.0.1:0", "--callback-url", &api])
            .args(["--rate", &rate.to_string()])
            .args(["--check-concurrency", &concurrency.to_string()])
            .args(["--readiness-latency", "uniform:50ms-400ms"])
            .args(["--send-latency", "uniform:5ms-40ms"])
            .args(["--response-latency", "lognormal:700ms,0.35"])
            .args(["--not-yet-rate", "0.05", "--verdict-reject-rate", "0.1"]);
        let (downstream_process, downstream) = start_listening("downstream", simulated).await?;

        let mut processes = vec![api_process, downstream_process];
        for number in 1..=3 {
            let name = format!("worker-{number}");
            let mut http = command(&worker, url);
            http.args(["http", "--name", &name, "--lease", "3s", "--grace", "5s", "--answer", "envelope"])
                .args(["--check-url", &format!("{downstream}/check/{{kind}}")])
                .args(["--send-url", &format!("{downstream}/send/{{kind}}")])
                .args(["--receipt-url", &format!("{downstream}/receipt/{{kind}}/{{id}}")]);
            let child =
                http.stdout(Stdio::null()).spawn().with_context(|| format!("cannot start {}", worker.display()))?;
            processes.push(Process { name, child });
        }
        Ok(Self { api, downstream, processes })
    }

    /// Kills the first worker with SIGKILL: no call is finished, no claim released.
    pub(super) async fn kill_worker(&mut self) -> anyhow::Result<String> {
        let mut worker = self.processes.remove(FIRST_WORKER);
        worker.child.kill().await?;
        Ok(format!("{} killed (SIGKILL); its requests come back when its leases run out", worker.name))
    }

    /// Stops the first worker with SIGTERM: it finishes running calls and releases other claims.
    pub(super) async fn stop_worker(&mut self) -> anyhow::Result<String> {
        let mut worker = self.processes.remove(FIRST_WORKER);
        worker.terminate().await?;
        Ok(format!("{} asked to stop (SIGTERM), and has stopped", worker.name))
    }

    /// Fails when a process has ended that was neither killed nor stopped.
    pub(super) fn check_alive(&mut self) -> anyhow::Result<()> {
        for process in &mut self.processes {
            if let Some(status) = process.child.try_wait()? {
                bail!("{} ended by itself: {status}", process.name);
            }
        }
        Ok(())
    }

    /// Stops the processes that still run.
    pub(super) async fn stop(mut self) {
        for process in self.processes.iter_mut().rev() {
            if let Err(error) = process.terminate().await {
                print_err(format_args!("{}: {error:#}", process.name));
            }
        }
    }
}

impl Process {
    async fn terminate(&mut self) -> anyhow::Result<()> {
        let Some(id) = self.child.id() else {
            return Ok(());
        };
        kill(Pid::from_raw(i32::try_from(id)?), Signal::SIGTERM)?;
        let status = tokio::time::timeout(TIME_LIMIT, self.child.wait())
            .await
            .with_context(|| format!("{} does not stop", self.name))??;
        anyhow::ensure!(status.success(), "{} stopped with {status}", self.name);
        Ok(())
    }
}

/// A program in the directory of this one.
fn sibling(program: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let path = program.with_file_name(name);
    anyhow::ensure!(
        path.exists(),
        "the demo needs {}: build it with `cargo build --release --workspace`",
        path.display()
    );
    Ok(path)
}

fn command(program: &Path, url: &str) -> Command {
    let log_filter = std::env::var("RUST_LOG").unwrap_or_else(|_| "error".to_owned());
    let mut command = Command::new(program);
    command.env("DATABASE_URL", url).env("RUST_LOG", log_filter);
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Starts a server and waits until it has printed its address.
async fn start_listening(name: &str, mut command: Command) -> anyhow::Result<(Process, String)> {
    let mut child = command.stdout(Stdio::piped()).spawn().with_context(|| format!("cannot start {name}"))?;
    let stdout = child.stdout.take().context("no output")?;
    let mut lines = BufReader::new(stdout).lines();
    let listening = tokio::time::timeout(TIME_LIMIT, async {
        while let Some(line) = lines.next_line().await? {
            if let Some(url) = line.strip_prefix("listening on ") {
                return Ok(Some(url.to_owned()));
            }
        }
        anyhow::Ok(None)
    });
    let url = listening
        .await
        .with_context(|| format!("{name} does not print its address"))??
        .with_context(|| format!("{name} ended before it listened"))?;
    // Read on, because a closed pipe would fail its next line.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    let name = name.to_owned();
    Ok((Process { name, child }, url))
}
