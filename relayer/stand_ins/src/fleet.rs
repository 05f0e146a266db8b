//! The relayer's programs: nodes and workers as processes, on one database, against a network.

use std::env;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use alloy::primitives::hex;
use alloy::signers::local::PrivateKeySigner;
use anyhow::{Context as _, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;
use url::Url;

use crate::network::Network;

/// How long a program may take to start or to end.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// How long a command may take: `wallet resync` waits until an account has been quiet for half a minute.
const COMMAND_LIMIT: Duration = Duration::from_secs(90);

/// An address with any free port.
pub const ANY: &str = "127.0.0.1:0";

/// What all programs of a relayer share: the database, the configuration, the keys.
#[derive(Debug)]
pub struct Fleet {
    program: PathBuf,
    database: String,
    keys: Vec<PrivateKeySigner>,
    directory: TempDir,
    variables: Vec<(&'static str, &'static str)>,
}

/// A program that runs. It is killed when this is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// Where it listens, if it is a node.
    pub url: Option<Url>,
}

impl Fleet {
    /// Makes the tables and kinds, and adopts the wallets `wallet-0`, `wallet-1`, … of the keys.
    ///
    /// # Errors
    ///
    /// When the program is not there, or refuses.
    pub async fn new(
        program: &Path,
        database: &str,
        network: &Network,
        keys: &[PrivateKeySigner],
    ) -> anyhow::Result<Fleet> {
        let fleet = Fleet::unprepared(program, database, network, keys)?;
        fleet.run(&["init"]).await?;
        for number in 0..keys.len() {
            fleet.run(&["wallet", "add", &format!("wallet-{number}")]).await?;
        }
        Ok(fleet)
    }

    /// As [`Fleet::new`], with the configuration only.
    ///
    /// # Errors
    ///
    /// When the program is not there.
    pub fn unprepared(
        program: &Path,
        database: &str,
        network: &Network,
        keys: &[PrivateKeySigner],
    ) -> anyhow::Result<Fleet> {
        ensure!(program.is_file(), "{} is missing: build it with `cargo build -p tidegate-fhevm`", program.display());
        let fleet = Fleet {
            program: program.to_owned(),
            database: database.to_owned(),
            keys: keys.to_vec(),
            directory: tempfile::tempdir()?,
            variables: Vec::new(),
        };
        std::fs::write(fleet.config(), configuration(network, keys.len())?)?;
        Ok(fleet)
    }

    /// Gives all programs that start from now on a variable of the environment.
    #[must_use]
    pub fn with(mut self, variable: &'static str, value: &'static str) -> Fleet {
        self.variables.push((variable, value));
        self
    }

    /// Runs a command to its end, and answers what it printed.
    ///
    /// # Errors
    ///
    /// When it fails.
    pub async fn run(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let output = self.command().args(arguments).output();
        let output = timeout(COMMAND_LIMIT, output).await.with_context(|| format!("{arguments:?} does not end"))??;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "tidegate-fhevm {arguments:?}: {}\n{errors}", output.status);
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Starts a node at an address.
    ///
    /// # Errors
    ///
    /// When it does not listen.
    pub async fn serve(&self, at: &str) -> anyhow::Result<Process> {
        let mut command = self.command();
        // With the usual limit it warns where a process may not open as many files.
        let arguments = ["serve", "--listen", at, "--connection-limit", "1000"];
        command.args(arguments).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let mut lines = BufReader::new(child.stdout.take().context("no output")?).lines();
        let line = timeout(TIME_LIMIT, lines.next_line()).await.context("the node does not listen")??;
        let line = line.context("the node ended before it listened")?;
        let url = line.strip_prefix("listening on ").with_context(|| format!("the node said: {line}"))?;
        Ok(Process { url: Some(Url::parse(url)?), child })
    }

    /// Starts a worker. It ends where a failpoint such as `committed:40` says.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn work(&self, failpoint: Option<&str>) -> anyhow::Result<Process> {
        let mut command = self.command();
        command.arg("work").stdout(Stdio::null());
        command.envs(failpoint.map(|failpoint| ("TIDEGATE_EVM_FAILPOINT", failpoint)));
        Ok(Process { url: None, child: command.spawn()? })
    }

    fn config(&self) -> PathBuf {
        self.directory.path().join("fhevm.toml")
    }

    /// The program, which is killed when its process is dropped.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .env("DATABASE_URL", &self.database)
            .env("TIDEGATE_FHEVM_CONFIG", self.config())
            .env("RUST_LOG", env::var("RUST_LOG").unwrap_or_else(|_| "warn".to_owned()))
            .envs(self.variables.iter().copied())
            .kill_on_drop(true);
        for (number, key) in self.keys.iter().enumerate() {
            command.env(key_variable(number), hex::encode_prefixed(key.to_bytes()));
        }
        command
    }
}

impl Process {
    /// Kills it with SIGKILL.
    ///
    /// # Errors
    ///
    /// When it cannot be waited for.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        Ok(self.child.kill().await?)
    }

    /// Asks it to stop, with SIGTERM, and waits until it has.
    ///
    /// # Errors
    ///
    /// When it does not stop, or not without an error.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        let id = self.child.id().context("the process has ended already")?;
        kill(Pid::from_raw(i32::try_from(id)?), Signal::SIGTERM)?;
        let status = timeout(TIME_LIMIT, self.child.wait()).await;
        let status = status.context("a process does not stop")??;
        ensure!(status.success(), "a process stopped with {status}");
        Ok(())
    }

    /// Waits until it has ended by itself.
    ///
    /// # Errors
    ///
    /// When it does not end.
    pub async fn ended(&mut self) -> anyhow::Result<()> {
        timeout(TIME_LIMIT, self.child.wait()).await.context("a process does not end")??;
        Ok(())
    }

    /// Whether it runs.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }
}

fn key_variable(number: usize) -> String {
    format!("WALLET_{number}_KEY")
}

/// The file `fhevm.toml` for a network.
fn configuration(network: &Network, wallets: usize) -> anyhow::Result<String> {
    let (chain, gateway) = (&network.chain, &network.gateway);
    let mut text = format!(
        "[gateway]\nchain_id = {}\nhttp = [\"{}\"]\ndecryption = \"{}\"\ninput_verification = \"{}\"\n\
         gateway_config = \"{}\"\nfee_token = \"{}\"\nprotocol_payment = \"{}\"\npoll_ms = 500\n",
        chain.chain_id(),
        chain.url(),
        gateway.decryption,
        gateway.input_verification,
        gateway.config,
        gateway.token,
        gateway.payment,
    );
    for (chain, host) in &network.hosts {
        let (id, url) = (chain.chain_id(), chain.url());
        write!(text, "[[host_chains]]\nchain_id = {id}\nhttp = [\"{url}\"]\nacl = \"{}\"\n", host.acl)?;
    }
    if let Some((chain, host)) = network.hosts.first() {
        write!(
            text,
            "[kms]\nchain_id = {}\nprotocol_config = \"{}\"\nkms_generation = \"{}\"\nstatic_threshold = {}\n",
            chain.chain_id(),
            host.protocol_config,
            host.kms_generation,
            network.user_threshold,
        )?;
    }
    for number in 0..wallets {
        write!(text, "[[wallets]]\nname = \"wallet-{number}\"\nkey_env = \"{}\"\n", key_variable(number))?;
    }
    Ok(text)
}
