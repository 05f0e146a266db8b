//! The demo: the relayer's programs under a kill and a reorganisation, and what the chain then has.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy::primitives::{Address, Bytes, U64};
use alloy::rpc::types::{Block, TransactionReceipt};
use alloy::signers::local::PrivateKeySigner;
use anyhow::{Context as _, ensure};
use tidegate_fhevm_stand_ins::client::Client;
use tidegate_fhevm_stand_ins::fleet::{ANY, Fleet, Process};
use tidegate_fhevm_stand_ins::front::Front;
use tidegate_fhevm_stand_ins::network::Network;
use tidegate_fhevm_stand_ins::workload::{Work, work};
use tokio::task::JoinSet;
use tokio::time::{interval, sleep_until};

use crate::database::Database;

const REQUESTS: u64 = 200;

/// Submissions come this far apart.
const PAUSE: Duration = Duration::from_millis(25);

/// Where the first worker is killed: between the commit of its transactions and their broadcast.
const FAILPOINT: &str = "committed:30";

/// How often the newest blocks are looked at, until they are replaced.
const LOOKS: Duration = Duration::from_millis(100);

/// How many blocks are replaced, once a worker has died.
const DEPTH: u64 = 2;

/// How many transactions of the wallets these have, at least.
const DROPPED_MIN: usize = 5;

pub(crate) async fn run() -> anyhow::Result<()> {
    let begun = Instant::now();
    let say = |text: String| println!("{:>5.1} s  {text}", begun.elapsed().as_secs_f64());
    let (network, wallets) = Network::with_wallets(3).await?;
    say("a gateway chain, a host chain, their contracts, a KMS of four nodes and a coprocessor".to_owned());

    let database = Database::start().await?;
    let program = std::env::current_exe()?.with_file_name("tidegate-fhevm");
    let fleet = Fleet::new(&program, &database.url, &network, &wallets).await?;
    let nodes = [fleet.serve(ANY).await?, fleet.serve(ANY).await?];
    let mut doomed = fleet.work(Some(FAILPOINT))?;
    let mut workers: Vec<Process> = vec![fleet.work(None)?];
    let front = Front::start(nodes.iter().filter_map(|node| node.url.clone()).collect()).await?;
    say(format!("two API nodes, two workers, {} wallets", wallets.len()));

    let works = (0..REQUESTS).map(|number| Ok(Arc::new(work(&network, number)?)));
    let works: Vec<Arc<Work>> = works.collect::<anyhow::Result<_>>()?;
    let client = Client::new(front.url().clone())?;
    let mut running = JoinSet::new();
    let start = tokio::time::Instant::now();
    for (number, work) in (0..).zip(&works) {
        let (client, work) = (client.clone(), work.clone());
        let threshold = network.user_threshold;
        running.spawn(async move {
            sleep_until(start + PAUSE * number).await;
            let outcome = client.run(work.path, &work.body).await?;
            work.check(&outcome.ended, threshold).with_context(|| format!("job {}", outcome.job))?;
            anyhow::Ok(outcome.took)
        });
    }
    let mut took = Vec::new();
    let mut reorganised = false;
    let mut looks = interval(LOOKS);
    loop {
        tokio::select! {
            outcome = running.join_next() => match outcome {
                Some(outcome) => took.push(outcome??),
                None => break,
            },
            _ = looks.tick() => {}
        }
        if !reorganised && workers.len() > 1 {
            let first = network.chain.block_number().await? + 1 - DEPTH;
            let dropped = count_from(first, &network, &wallets).await?;
            if dropped >= DROPPED_MIN {
                network.chain.reorg_from(first).await?;
                reorganised = true;
                say(format!("a reorganisation of depth {DEPTH} has dropped {dropped} transactions of the wallets"));
            }
        }
        if workers.len() == 1 && !doomed.runs() {
            workers.push(fleet.work(None)?);
            say("a worker has died between a commit and its broadcast; another one is started".to_owned());
        }
    }
    doomed.ended().await?;
    ensure!(reorganised, "no {DEPTH} blocks had {DROPPED_MIN} transactions: there was no reorganisation");
    took.sort();
    let (half, most) = (took[took.len() / 2], took[took.len() - 1]);
    say(format!(
        "{} requests have the answers of the KMS and the coprocessor: half of them within {:.1} s, all within {:.1} s",
        took.len(),
        half.as_secs_f64(),
        most.as_secs_f64()
    ));
    compare(&network, &works).await?;
    say(format!("the chain has exactly one successful transaction for each of {REQUESTS} requests"));
    println!("\n{}", fleet.run(&["check", "--at-rest"]).await?);
    Ok(())
}

/// How many transactions of the wallets are in the `DEPTH` blocks from `first` on.
async fn count_from(first: u64, network: &Network, wallets: &[PrivateKeySigner]) -> anyhow::Result<usize> {
    let mut count = 0;
    for number in first..first + DEPTH {
        let block = network.chain.block(number).await?.context("no such block")?;
        let senders = block.transactions.txns().map(|transaction| transaction.inner.signer());
        count += senders.filter(|sender| wallets.iter().any(|wallet| wallet.address() == *sender)).count();
    }
    Ok(count)
}

/// Reads all blocks, and counts the successful transactions of each request by its call.
async fn compare(network: &Network, works: &[Arc<Work>]) -> anyhow::Result<()> {
    let rpc = network.chain.rpc();
    let mut found: HashMap<(Address, Bytes), usize> = HashMap::new();
    for number in 0..=network.chain.block_number().await? {
        let block: Block = rpc.call("eth_getBlockByNumber", (U64::from(number), true)).await?;
        let receipts: Vec<TransactionReceipt> = rpc.call("eth_getBlockReceipts", [U64::from(number)]).await?;
        for (transaction, receipt) in block.transactions.txns().zip(&receipts) {
            use alloy::consensus::Transaction as _;
            if let (true, Some(to)) = (receipt.status(), transaction.to()) {
                *found.entry((to, transaction.input().clone())).or_default() += 1;
            }
        }
    }
    for work in works {
        let count = found.get(&(work.to, work.calldata.clone())).copied().unwrap_or_default();
        ensure!(
            count == 1,
            "a request to {} has {count} successful transactions on the chain: {}",
            work.path,
            work.body
        );
    }
    Ok(())
}
