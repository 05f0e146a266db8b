//! What has used a nonce of a wallet, if it was none of its own transactions; and other signs that the database and the
//! chain do not belong together. Each takes the wallet out of use, until a person runs `resync`.
//!
//! A missing receipt proves nothing, because indexes lag. A nonce is taken for lost when a foreign transaction with the
//! wallet as its sender is in the body of a block, and all endpoints that answer agree.

use std::collections::HashSet;

use alloy::{
    eips::BlockNumberOrTag,
    primitives::{Address, B256, U64},
};
use chrono::{DateTime, Utc};

use crate::{
    Chain, RpcError,
    body::{Body, BodyTransaction, bodies},
    keeper::{Keeper, KeeperError, View},
    metrics,
    store::OpenSlot,
};

/// Blocks that are read at once in search of a transaction.
const BODIES: u64 = 20;

/// How much earlier than its signature a transaction's block may be dated, in seconds.
const CLOCKS_APART: i64 = 120;

/// A transaction that has used a nonce.
#[derive(Clone, Debug)]
pub(crate) struct Occupant {
    pub(crate) transaction: BodyTransaction,
    pub(crate) block: u64,
    /// How many endpoints have it in that block.
    pub(crate) agreeing: usize,
}

/// The transaction in the chain's blocks that has used this nonce of an account; `None` if it is not to be found, or if
/// endpoints do not agree. `since`: no earlier block needs to be read.
pub(crate) async fn occupant(
    chain: &Chain,
    account: Address,
    nonce: u64,
    since: DateTime<Utc>,
) -> Result<Option<Occupant>, RpcError> {
    let block = match block_by_nonce(chain, account, nonce).await {
        Some(block) => Some(block),
        None => match block_by_counts(chain, account, nonce).await {
            Ok(block) => block,
            // The endpoints keep no old states.
            Err(_) => block_by_bodies(chain, account, nonce, since).await?,
        },
    };
    let Some(block) = block else { return Ok(None) };
    // An endpoint's index may say anything: the bodies of all of them decide.
    let answers =
        chain.read_everywhere::<Option<Body>>("eth_getBlockByNumber", (BlockNumberOrTag::Number(block), true)).await;
    let bodies: Vec<Body> = answers.into_iter().filter_map(|answer| answer.ok().flatten()).collect();
    let found = bodies.iter().map(|body| of_nonce(body, account, nonce));
    let Some(found) = found.collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    let hashes: HashSet<B256> = found.iter().map(|transaction| transaction.hash).collect();
    Ok(match found.as_slice() {
        [first, ..] if hashes.len() == 1 => {
            Some(Occupant { transaction: (*first).clone(), block, agreeing: found.len() })
        }
        _ => None,
    })
}

fn of_nonce(body: &Body, account: Address, nonce: u64) -> Option<&BodyTransaction> {
    let mut transactions = body.transactions.iter();
    transactions.find(|transaction| transaction.from == account && transaction.nonce == U64::from(nonce))
}

/// By an index of senders and nonces, which few nodes have.
async fn block_by_nonce(chain: &Chain, account: Address, nonce: u64) -> Option<u64> {
    let params = (account, U64::from(nonce));
    let answers = chain.read_everywhere::<Option<BodyTransaction>>("eth_getTransactionBySenderAndNonce", params).await;
    let mut found = answers.into_iter().filter_map(|answer| answer.ok().flatten());
    found.find_map(|transaction| transaction.block_number).map(|number| number.to())
}

/// By the counts of the account's transactions at old blocks: the first block after which the count is above the nonce.
async fn block_by_counts(chain: &Chain, account: Address, nonce: u64) -> Result<Option<u64>, RpcError> {
    let (mut low, mut high) = (0, chain.block_number().await?);
    if chain.transaction_count(account, BlockNumberOrTag::Number(high)).await? <= nonce {
        return Ok(None);
    }
    while low < high {
        let middle = low + (high - low) / 2;
        if chain.transaction_count(account, BlockNumberOrTag::Number(middle)).await? > nonce {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Ok(Some(high))
}

/// By reading the blocks since then, the last one first.
async fn block_by_bodies(
    chain: &Chain,
    account: Address,
    nonce: u64,
    since: DateTime<Utc>,
) -> Result<Option<u64>, RpcError> {
    let mut above = chain.block_number().await? + 1;
    let oldest = u64::try_from(since.timestamp() - CLOCKS_APART).unwrap_or_default();
    while above > 0 {
        let numbers: Vec<u64> = (above.saturating_sub(BODIES)..above).rev().collect();
        let blocks = bodies(chain, &numbers).await?;
        for block in blocks.iter().flatten() {
            if of_nonce(block, account, nonce).is_some() {
                return Ok(Some(block.number.to()));
            }
            if block.timestamp.to::<u64>() < oldest {
                return Ok(None);
            }
        }
        above = above.saturating_sub(BODIES);
    }
    Ok(None)
}

impl Keeper {
    /// Looks for what has used the nonce of a transaction none of whose versions has a receipt at the endpoint that was
    /// asked. It takes the wallet out of use if that is a foreign transaction, but for one with the order's own call.
    pub(crate) async fn look_for(&self, epoch: i64, view: &View, slot: &OpenSlot) -> Result<(), KeeperError> {
        for hash in &slot.hashes {
            if !self.is_gone(view, *hash).await? {
                return Ok(());
            }
        }
        let (wallet, nonce) = (&self.name, slot.nonce);
        let Some(found) = occupant(&self.chain, self.address(), nonce, slot.signed_at).await? else {
            tracing::warn!(wallet, nonce, "the chain has used a nonce, and no endpoint shows by which transaction");
            return Ok(());
        };
        let (hash, block) = (found.transaction.hash, found.block);
        if slot.hashes.contains(&hash) {
            tracing::warn!(wallet, nonce, %hash, block, "endpoints have a transaction in a block, but no receipt of it");
            return Ok(());
        }
        if found.agreeing < self.options.lost_quorum {
            tracing::warn!(wallet, nonce, %hash, block, "too few endpoints show a foreign transaction to believe it");
            return Ok(());
        }
        if self.store.adopt_version(self.wallet, nonce, &found.transaction).await? {
            tracing::warn!(wallet, nonce, %hash, block, "an order's own transaction, which the database had forgotten");
            return self.is_gone(view, hash).await.map(|_| ());
        }
        metrics::lost(wallet);
        let cause = format!(
            "nonce {nonce} was used by the foreign transaction {hash} in block {block}: another program uses the key, or \
             the database was set back"
        );
        self.take_out(epoch, &cause).await
    }

    /// Whether the chain is ahead of the database, or the database is a copy; the wallet is out of use then.
    pub(crate) async fn is_out_of_step(&self, epoch: i64, view: &View) -> Result<bool, KeeperError> {
        let next = view.wallet.next_nonce;
        let cause = if view.wallet.copied {
            "the database is another PostgreSQL cluster than the one that adopted the wallet, or on another timeline: it \
             may lack transactions that were signed"
                .to_owned()
        } else if view.latest.max(view.pending) > next {
            format!(
                "the chain has {} transactions of it, {} with those that wait, and the database only {next}: another \
                 program uses the key, or the database was set back",
                view.latest, view.pending
            )
        } else if view.latest < view.wallet.settled_nonce {
            let params = (self.address(), BlockNumberOrTag::Latest);
            let counts = self.chain.read_everywhere::<U64>("eth_getTransactionCount", params).await;
            let settled = view.wallet.settled_nonce;
            let Some(most) = counts.into_iter().flatten().max().map(|count| count.to::<u64>()) else {
                return Ok(false);
            };
            if most >= settled {
                return Ok(false);
            }
            format!("the chain has {most} transactions of it, of which {settled} were final: they are gone")
        } else {
            return Ok(false);
        };
        self.take_out(epoch, &cause).await?;
        Ok(true)
    }

    /// Takes the wallet out of use.
    pub(crate) async fn take_out(&self, epoch: i64, cause: &str) -> Result<(), KeeperError> {
        if self.store.keeper_off(self.wallet, epoch, cause).await? {
            let wallet = &self.name;
            tracing::error!(wallet, cause, "the wallet is out of use: nothing is sent until `wallet resync`");
        }
        Ok(())
    }
}
