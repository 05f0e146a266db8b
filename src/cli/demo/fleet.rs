//! The processes of the demo.

use std::{
    net::SocketAddr,
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

/// How long a process may take to start or to stop.
const PATIENCE: Duration = Duration::from_secs(30);

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
    expected_alive: bool,
}

impl Fleet {
    pub(super) async fn start(url: &str, rate: u32, concurrency: u32) -> anyhow::Result<Self> {
        let tidegate = std::env::current_exe().context("where is this program?")?;
        let worker = beside(&tidegate, "tidegate-worker")?;
        let (rate, concurrency) = (rate.to_string(), concurrency.to_string());

        let mut serve = command(&tidegate, url);
        serve.args(["serve", "--listen", "127.0.0.1:0"]);
        let (api_process, api) = start_listening("api", serve).await?;

        let mut simulated = command(&worker, url);
        simulated.args([
            "downstream",
            "--listen",
            "127.0.0.1:0",
            "--callback-url",
            &api,
            "--rate",
            &rate,
            "--check-concurrency",
            &concurrency,
            "--readiness-latency",
            "uniform:50ms-400ms",
            "--send-latency",
            "uniform:5ms-40ms",
            "--response-latency",
            "lognormal:700ms,0.35",
            "--not-yet-rate",
            "0.05",
            "--verdict-reject-rate",
            "0.1",
        ]);
        let (downstream_process, downstream) = start_listening("downstream", simulated).await?;

        let mut processes = vec![api_process, downstream_process];
        for number in 1..=3 {
            let name = format!("worker-{number}");
            let mut http = command(&worker, url);
            http.args(["http", "--name", &name, "--lease", "3s", "--grace", "5s"])
                .args(["--check-url", &format!("{downstream}/check/{{kind}}")])
                .args(["--send-url", &format!("{downstream}/send/{{kind}}")])
                .args(["--receipt-url", &format!("{downstream}/receipt/{{kind}}/{{id}}")]);
            let child = http
                .stdout(Stdio::null())
                .spawn()
                .with_context(|| format!("cannot start {}", worker.display()))?;
            processes.push(Process {
                name,
                child,
                expected_alive: true,
            });
        }
        Ok(Self {
            api,
            downstream,
            processes,
        })
    }

    /// SIGKILL: nothing is finished, nothing given back.
    pub(super) async fn kill_worker(&mut self, index: usize) -> anyhow::Result<String> {
        let worker = self.worker(index)?;
        worker.expected_alive = false;
        worker.child.kill().await?;
        Ok(format!(
            "{} killed (SIGKILL); its requests come back when its leases run out",
            worker.name
        ))
    }

    /// SIGTERM: it finishes what runs and gives the rest back.
    pub(super) async fn stop_worker(&mut self, index: usize) -> anyhow::Result<String> {
        let worker = self.worker(index)?;
        worker.expected_alive = false;
        worker.terminate().await?;
        Ok(format!("{} asked to stop (SIGTERM), and has", worker.name))
    }

    /// Fails when a process that should run does not.
    pub(super) fn check_alive(&mut self) -> anyhow::Result<()> {
        for process in &mut self.processes {
            if process.expected_alive
                && let Some(status) = process.child.try_wait()?
            {
                bail!("{} ended by itself: {status}", process.name);
            }
        }
        Ok(())
    }

    /// Ends whatever still runs.
    pub(super) async fn stop(mut self) {
        for process in self.processes.iter_mut().rev() {
            if process.expected_alive
                && let Err(error) = process.terminate().await
            {
                eprintln!("{}: {error:#}", process.name);
            }
        }
    }

    fn worker(&mut self, index: usize) -> anyhow::Result<&mut Process> {
        self.processes.get_mut(2 + index).context("there is no such worker")
    }
}

impl Process {
    async fn terminate(&mut self) -> anyhow::Result<()> {
        let Some(id) = self.child.id() else {
            return Ok(());
        };
        kill(Pid::from_raw(i32::try_from(id)?), Signal::SIGTERM)?;
        let status = tokio::time::timeout(PATIENCE, self.child.wait())
            .await
            .with_context(|| format!("{} does not stop", self.name))??;
        anyhow::ensure!(status.success(), "{} stopped with {status}", self.name);
        Ok(())
    }
}

/// A program installed beside this one.
fn beside(program: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let path = program.with_file_name(name);
    anyhow::ensure!(
        path.exists(),
        "the demo needs {}: build it with `cargo build --release --workspace`",
        path.display()
    );
    Ok(path)
}

fn command(program: &Path, url: &str) -> Command {
    let mut command = Command::new(program);
    command
        .env("DATABASE_URL", url)
        .env(
            "RUST_LOG",
            std::env::var("RUST_LOG").unwrap_or_else(|_| "error".to_owned()),
        )
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

/// Starts a server and waits until it has said where it listens.
async fn start_listening(name: &str, mut command: Command) -> anyhow::Result<(Process, String)> {
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {name}"))?;
    let stdout = child.stdout.take().context("no output")?;
    let mut lines = BufReader::new(stdout).lines();
    let said = tokio::time::timeout(PATIENCE, async {
        while let Some(line) = lines.next_line().await? {
            if let Some(address) = line.split_whitespace().find(|word| is_address(word)) {
                return Ok(Some(base_url(address)));
            }
        }
        anyhow::Ok(None)
    });
    let address = said
        .await
        .with_context(|| format!("{name} does not say where it listens"))??
        .with_context(|| format!("{name} ended before it listened"))?;
    // Somebody has to go on reading, or its next line would fail.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    let process = Process {
        name: name.to_owned(),
        child,
        expected_alive: true,
    };
    Ok((process, address))
}

/// Servers say where they listen as a URL or as an address.
fn is_address(word: &str) -> bool {
    word.starts_with("http://") || word.parse::<SocketAddr>().is_ok()
}

fn base_url(address: &str) -> String {
    if address.starts_with("http://") {
        address.to_owned()
    } else {
        format!("http://{address}")
    }
}
