//! A chain: anvil as a child process on a free port of the loopback interface.

use std::{
    env,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, ChildStdout, Command, Stdio},
    thread,
};

use alloy::{
    eips::BlockNumberOrTag,
    primitives::{Address, B256, Bytes, U64, U256},
    rpc::types::{Block, TransactionReceipt, TransactionRequest},
    signers::local::PrivateKeySigner,
};
use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use serde_json::Value;
use tokio::sync::oneshot;
use url::Url;

use crate::target;

use crate::rpc::Rpc;

/// Runs a program until its own input ends: when the value is dropped, or the process that has it dies.
const UNTIL_INPUT_ENDS: &str = r#""$0" "$@" </dev/null & read -r _; kill -9 $!; wait 2>/dev/null"#;

/// When blocks are made.
#[derive(Clone, Copy, Debug)]
pub enum Mining {
    /// For each transaction at once.
    Automatic,
    /// For each transaction at once, and every second: with the former alone, anvil can leave transactions that have
    /// waited for a predecessor in its pool for good.
    Mixed,
    /// Every so many seconds.
    Every(u32),
    /// By [`Anvil::mine`] only.
    OnDemand,
}

/// What a chain is like.
#[derive(Clone, Copy, Debug)]
pub struct ChainOptions {
    /// Its id.
    pub chain_id: u64,
    /// When blocks are made.
    pub mining: Mining,
    /// The most gas that the transactions of a block use.
    pub gas_limit: u64,
    /// How many accounts have 10,000 ether and a known key.
    pub accounts: usize,
    /// `finalized` is twice this number behind the newest block.
    pub slots_in_an_epoch: u32,
}

impl Default for ChainOptions {
    /// Chain 31337, which makes a block for each transaction, with ten accounts.
    fn default() -> ChainOptions {
        ChainOptions {
            chain_id: 31337,
            mining: Mining::Automatic,
            gas_limit: 1_000_000_000,
            accounts: 10,
            slots_in_an_epoch: 10,
        }
    }
}

/// A chain of its own. It ends when this is dropped, and when the process that has it dies.
#[derive(Debug)]
pub struct Anvil {
    child: Child,
    rpc: Rpc,
    chain_id: u64,
    mining: Mining,
    keys: Vec<PrivateKeySigner>,
}

impl Anvil {
    /// Starts a chain.
    ///
    /// # Errors
    ///
    /// When anvil is not installed, or does not start.
    pub async fn start(options: ChainOptions) -> Result<Anvil> {
        let mut command = Command::new("sh");
        command.args(["-c", UNTIL_INPUT_ENDS]).arg(program()?).args(["--port", "0"]);
        for (option, value) in [
            ("--chain-id", options.chain_id),
            ("--gas-limit", options.gas_limit),
            ("--accounts", options.accounts as u64),
            ("--slots-in-an-epoch", options.slots_in_an_epoch.into()),
        ] {
            command.arg(option).arg(value.to_string());
        }
        match options.mining {
            Mining::Automatic => {}
            Mining::Mixed => drop(command.args(["--mixed-mining", "--block-time", "1"])),
            Mining::Every(seconds) => drop(command.args(["--block-time", &seconds.to_string()])),
            Mining::OnDemand => drop(command.arg("--no-mining")),
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("cannot start sh")?;
        let output = child.stdout.take().context("sh has no output")?;
        let (started, starting) = oneshot::channel();
        thread::spawn(move || read_output(output, started));
        let Ok((address, keys)) = starting.await else {
            child.wait().ok();
            bail!("anvil ended before it listened");
        };
        Ok(Anvil {
            child,
            rpc: Rpc::new(Url::parse(&format!("http://{address}"))?),
            chain_id: options.chain_id,
            mining: options.mining,
            keys,
        })
    }

    /// Where it serves JSON-RPC.
    #[must_use]
    pub fn url(&self) -> &Url {
        self.rpc.url()
    }

    /// Its id.
    #[must_use]
    pub fn chain_id(&self) -> u64 {
        self.chain_id
    }

    /// The keys of the accounts that have ether.
    #[must_use]
    pub fn keys(&self) -> &[PrivateKeySigner] {
        &self.keys
    }

    /// Calls its methods.
    #[must_use]
    pub fn rpc(&self) -> &Rpc {
        &self.rpc
    }

    /// Makes blocks of the transactions that wait.
    ///
    /// # Errors
    ///
    /// When anvil refuses; so do all that follow.
    pub async fn mine(&self, blocks: u64) -> Result<()> {
        self.nothing("anvil_mine", (U64::from(blocks),)).await
    }

    /// Replaces the last `depth` blocks by empty ones. Their transactions are gone, also from the pool.
    pub async fn reorg(&self, depth: u64) -> Result<()> {
        self.reorg_with(depth, &[]).await
    }

    /// Replaces the last `depth` blocks by ones with these signed transactions, each in the block at its offset.
    pub async fn reorg_with(&self, depth: u64, transactions: &[(Bytes, u64)]) -> Result<()> {
        let first = self.block_number().await? + 1 - depth;
        self.replace(first, transactions).await
    }

    /// Replaces the block `first` and all later ones by empty ones, also those that are made meanwhile.
    pub async fn reorg_from(&self, first: u64) -> Result<()> {
        self.replace(first, &[]).await
    }

    /// Replaces the block `first` and all later ones.
    ///
    /// Where blocks are made by time, two more are made before and replaced, too: an earlier one that is still under way
    /// would come between, and the chain would lack others for good. Where blocks are mixed, they are made every second
    /// only from then on: anvil has no call that mixes them again.
    async fn replace(&self, first: u64, transactions: &[(Bytes, u64)]) -> Result<()> {
        let seconds = match self.mining {
            Mining::Automatic | Mining::OnDemand => None,
            Mining::Mixed => Some(1),
            Mining::Every(seconds) => Some(seconds),
        };
        if seconds.is_some() {
            self.nothing("evm_setIntervalMining", (0,)).await?;
            // Each waits for the block that is under way, and a second one may wait behind it.
            self.mine(2).await?;
        }
        let depth = self.block_number().await? + 1 - first;
        self.nothing("anvil_reorg", (depth, transactions)).await?;
        match seconds {
            None => Ok(()),
            Some(seconds) => self.nothing("evm_setIntervalMining", (seconds,)).await,
        }
    }

    /// Removes a transaction from the pool, and those of the same account with later nonces.
    pub async fn drop_transaction(&self, hash: B256) -> Result<()> {
        self.nothing("anvil_dropTransaction", (hash,)).await
    }

    /// Sets the ether of an account, in wei.
    pub async fn set_balance(&self, of: Address, wei: U256) -> Result<()> {
        self.nothing("anvil_setBalance", (of, wei)).await
    }

    /// Sets the base fee of the next block, in wei per gas.
    pub async fn set_next_base_fee(&self, wei: u128) -> Result<()> {
        self.nothing("anvil_setNextBlockBaseFeePerGas", (U256::from(wei),)).await
    }

    /// Puts code at an address.
    pub async fn set_code(&self, at: Address, code: Bytes) -> Result<()> {
        self.nothing("anvil_setCode", (at, code)).await
    }

    /// Notes the state of the chain, for [`revert`](Self::revert). The pool is not part of it.
    pub async fn snapshot(&self) -> Result<U256> {
        self.rpc.call("evm_snapshot", ()).await
    }

    /// Sets the chain back to a snapshot, which is used up.
    pub async fn revert(&self, snapshot: U256) -> Result<()> {
        let found: bool = self.rpc.call("evm_revert", (snapshot,)).await?;
        ensure!(found, "snapshot {snapshot} is unknown or used up");
        Ok(())
    }

    /// The number of the newest block.
    pub async fn block_number(&self) -> Result<u64> {
        Ok(self.rpc.call::<U64>("eth_blockNumber", ()).await?.to())
    }

    /// A block with its transactions.
    pub async fn block(&self, at: impl Into<BlockNumberOrTag>) -> Result<Option<Block>> {
        self.rpc.call("eth_getBlockByNumber", (at.into(), true)).await
    }

    /// Sends a transaction of one of the accounts, which anvil signs, and returns its hash.
    pub async fn send(&self, transaction: &TransactionRequest) -> Result<B256> {
        self.rpc.call("eth_sendTransaction", (transaction,)).await
    }

    /// The receipt of a transaction that is mined.
    pub async fn receipt(&self, of: B256) -> Result<Option<TransactionReceipt>> {
        self.rpc.call("eth_getTransactionReceipt", (of,)).await
    }

    async fn nothing(&self, method: &str, params: impl Serialize) -> Result<()> {
        self.rpc.call::<Value>(method, params).await.map(drop)
    }
}

impl Drop for Anvil {
    fn drop(&mut self) {
        // Its input ends, and `sh` with it.
        self.child.stdin.take();
        self.child.wait().ok();
    }
}

type Started = (String, Vec<PrivateKeySigner>);

/// Reads all that anvil prints, and returns from it where it listens and the keys of its accounts.
fn read_output(output: ChildStdout, started: oneshot::Sender<Started>) {
    let mut started = Some(started);
    let mut keys = Vec::new();
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        if let Some(address) = line.strip_prefix("Listening on ")
            && let Some(started) = started.take()
        {
            started.send((address.trim().to_owned(), std::mem::take(&mut keys))).ok();
        } else if started.is_some() {
            keys.extend(line.split_once(") 0x").and_then(|(_, key)| key.trim().parse::<PrivateKeySigner>().ok()));
        }
    }
}

/// Anvil's program, which `relayer/tests/prepare` installs.
fn program() -> Result<PathBuf> {
    let system = match env::consts::OS {
        "macos" => "darwin",
        other => other,
    };
    let machine = match env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let program = target().join(format!("fhevm/node_modules/@foundry-rs/anvil-{system}-{machine}/bin/anvil"));
    ensure!(program.is_file(), "anvil is missing: run `make test-fhevm` or relayer/tests/prepare, which install it");
    Ok(program)
}
