//! The task that watches the gateway for the nodes of the KMS and of the coprocessor, and sends their answers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy::primitives::{Address, B256, TxKind, U64, U256};
use alloy::rpc::types::{Block, Log};
use anyhow::Context as _;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::coprocessor::Coprocessor;
use crate::deploy::{transaction, unlock};
use crate::kms::Kms;
use crate::node::{Answer, Node};
use crate::rpc::Rpc;

/// How often the chain is looked at.
const POLL: Duration = Duration::from_millis(100);

/// How long an answer may take to be mined before it is sent again.
const RESEND: Duration = Duration::from_secs(5);

/// How many blocks are read again after a reorganisation.
const REREAD: u64 = 64;

/// About how many answers are sent at once: a chain refuses a batch that is too long, and so each later one, which is
/// longer still.
const ANSWERS: usize = 1000;

/// Answers requests until it is dropped.
#[derive(Debug)]
pub struct Answering(JoinHandle<()>);

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Answers the requests that two contracts of the gateway emit from now on, on whatever fork.
///
/// # Errors
///
/// When the gateway cannot be reached.
pub async fn answer(
    gateway: &Rpc,
    contracts: [Address; 2],
    kms: Kms,
    coprocessor: Coprocessor,
) -> anyhow::Result<Answering> {
    for node in kms.nodes().iter().chain(coprocessor.nodes()) {
        unlock(gateway, node.address()).await?;
    }
    let chain_id = gateway.call::<U64>("eth_chainId", ()).await?.to();
    let mut watch = Watch {
        gateway: gateway.clone(),
        chain_id,
        contracts,
        kms,
        coprocessor,
        read: None,
        pending: HashMap::new(),
        sent: HashMap::new(),
    };
    watch.look().await?;
    Ok(Answering(tokio::spawn(async move {
        loop {
            if let Err(error) = watch.look().await.and(watch.send().await) {
                tracing::warn!("the stand-in nodes could not look at the gateway: {error:#}");
            }
            tokio::time::sleep(POLL).await;
        }
    })))
}

/// An answer that is not mined.
struct Pending {
    node: Arc<Node>,
    answer: Answer,
    seen: Instant,
    sent: Option<Instant>,
}

struct Watch {
    gateway: Rpc,
    chain_id: u64,
    contracts: [Address; 2],
    kms: Kms,
    coprocessor: Coprocessor,
    /// Number and hash of the newest block that was read.
    read: Option<(u64, B256)>,
    /// By request and node.
    pending: HashMap<(U256, Address), Pending>,
    /// Which answer a transaction has.
    sent: HashMap<B256, (U256, Address)>,
}

impl Watch {
    /// Reads what the contracts emitted since the last look. After a reorganisation the last blocks are read as if for the
    /// first time: requests and answers of the dropped fork are forgotten.
    async fn look(&mut self) -> anyhow::Result<()> {
        let head: Block = self.gateway.call("eth_getBlockByNumber", ("latest", false)).await?;
        let (number, hash) = (head.header.number, head.header.hash);
        let from = match self.read {
            None => number + 1,
            Some(read) if read == (number, hash) => return Ok(()),
            Some((read, hash)) => {
                let at: Option<Block> = self.gateway.call("eth_getBlockByNumber", (U64::from(read), false)).await?;
                if at.is_some_and(|block| block.header.hash == hash) {
                    read + 1
                } else {
                    self.pending.clear();
                    read.min(number).saturating_sub(REREAD)
                }
            }
        };
        if from <= number {
            let filter = json!({
                "fromBlock": U64::from(from), "toBlock": U64::from(number), "address": self.contracts,
            });
            let logs: Vec<Log> = self.gateway.call("eth_getLogs", [filter]).await?;
            for log in logs {
                self.note(&log)?;
            }
        }
        self.read = Some((number, hash));
        Ok(())
    }

    fn note(&mut self, log: &Log) -> anyhow::Result<()> {
        let hash = log.transaction_hash.context("a log of a mined block without a transaction")?;
        if let Some(answered) = self.sent.get(&hash) {
            self.pending.remove(answered);
            return Ok(());
        }
        let asked = self.kms.nodes().iter().map(|node| (node, self.kms.answer(node, log, self.chain_id)));
        let proved = self.coprocessor.nodes().iter();
        let proved = proved.map(|node| (node, self.coprocessor.answer(node, log, self.chain_id)));
        for (node, answer) in asked.chain(proved) {
            if let Some(answer) = answer? {
                let pending = Pending { node: node.clone(), answer, seen: Instant::now(), sent: None };
                // A request may be told of in two layouts.
                self.pending.entry((pending.answer.id, node.address())).or_insert(pending);
            }
        }
        Ok(())
    }

    /// Sends the answers that are due, in one batch.
    async fn send(&mut self) -> anyhow::Result<()> {
        let mut due = Vec::new();
        for (key, pending) in &mut self.pending {
            if due.len() >= ANSWERS {
                break;
            }
            let behaviour = pending.node.behaviour();
            let waits = pending.sent.is_some_and(|sent| sent.elapsed() < RESEND);
            if !behaviour.silent && !waits && pending.seen.elapsed() >= behaviour.delay {
                let times = if pending.sent.is_some() { 1 } else { 1 + behaviour.repeats };
                due.extend((0..times).map(|_| (*key, pending.answer.clone())));
                pending.sent = Some(Instant::now());
            }
        }
        due.sort_by_key(|((id, node), _)| (*id, *node));
        let mut nonces = self.nonces(&due).await?;
        let mut calls = Vec::new();
        for ((_, from), answer) in &due {
            let nonce = nonces.get_mut(from).context("a node without a nonce")?;
            let transaction = transaction(*from, TxKind::Call(answer.to), &answer.calldata, *nonce, 2_000_000);
            calls.push(("eth_sendTransaction", json!([transaction])));
            *nonce += 1;
        }
        for ((key, _), hash) in due.iter().zip(self.gateway.batch(&calls).await?) {
            self.sent.insert(serde_json::from_value(hash?)?, *key);
        }
        Ok(())
    }

    async fn nonces(&self, due: &[((U256, Address), Answer)]) -> anyhow::Result<HashMap<Address, u64>> {
        let mut nodes: Vec<Address> = due.iter().map(|((_, node), _)| *node).collect();
        nodes.sort();
        nodes.dedup();
        let call = |node: &Address| ("eth_getTransactionCount", json!([node, "pending"]));
        let counts = self.gateway.batch(&nodes.iter().map(call).collect::<Vec<(&str, Value)>>()).await?;
        let count = |count: Result<Value, _>| anyhow::Ok(serde_json::from_value::<U64>(count?)?.to());
        nodes.into_iter().zip(counts).map(|(node, answer)| Ok((node, count(answer)?))).collect()
    }
}
