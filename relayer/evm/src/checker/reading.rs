//! Reads a chain's blocks for a check.

use std::{collections::HashMap, ops::RangeInclusive};

use alloy::{
    eips::BlockNumberOrTag,
    primitives::{Address, B256},
};

use super::{Expected, ExpectedWallet, OnChain, Report, compare};
use crate::{Chain, RpcError, body::bodies};

/// Blocks that are read at once.
const AT_ONCE: usize = 10;

/// Why a chain could not be checked.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The chain did not answer.
    #[error(transparent)]
    Endpoint(#[from] RpcError),
    /// An endpoint lacks a block that it should have.
    #[error("block {0} is not there: check against an endpoint that has all blocks")]
    NoBlock(u64),
    /// No endpoint has the state after a block.
    #[error(
        "the state of block {0} is not there ({1}): check against an archive node, or from a block on that is at or before \
         the first transactions of the wallets"
    )]
    NoState(u64, #[source] RpcError),
    /// The chain was reorganised meanwhile.
    #[error("block {0} does not follow the block before it: the chain changed while it was read; check again")]
    Changed(u64),
    /// An endpoint has a transaction in a block, but no receipt of it.
    #[error("transaction {0} is in a block and has no receipt: check against another endpoint")]
    NoReceipt(B256),
}

/// The counts of the wallets' transactions before this block, of those that have used their first nonce before it: only
/// these need an endpoint that has an old state.
async fn starts(chain: &Chain, wallets: &[ExpectedWallet], from: u64) -> Result<HashMap<Address, u64>, CheckError> {
    let mut starts = HashMap::new();
    let Some(before) = from.checked_sub(1) else {
        return Ok(starts);
    };
    for wallet in wallets {
        let is_new = wallet.next_nonce == wallet.first_nonce || wallet.first_block.is_some_and(|first| from <= first);
        if is_new {
            continue;
        }
        let count = chain.transaction_count(wallet.address, BlockNumberOrTag::Number(before));
        let count = count.await.map_err(|error| match error.is_unreachable() {
            true => CheckError::Endpoint(error),
            false => CheckError::NoState(before, error),
        })?;
        starts.insert(wallet.address, count);
    }
    Ok(starts)
}

/// Reads these blocks one by one, and compares them with what is expected.
///
/// # Errors
///
/// When the chain does not answer, lacks a block, or changes meanwhile.
pub async fn check(chain: &Chain, expected: &Expected, blocks: RangeInclusive<u64>) -> Result<Report, CheckError> {
    let ours: Vec<Address> = expected.wallets.iter().map(|wallet| wallet.address).collect();
    let starts = starts(chain, &expected.wallets, *blocks.start()).await?;
    let numbers: Vec<u64> = blocks.clone().collect();
    let mut transactions = Vec::new();
    let mut parent = None;
    for numbers in numbers.chunks(AT_ONCE) {
        let bodies = bodies(chain, numbers).await?;
        let mut found = Vec::new();
        for (number, body) in numbers.iter().zip(bodies) {
            let body = body.ok_or(CheckError::NoBlock(*number))?;
            if parent.is_some_and(|parent| parent != body.parent_hash) {
                return Err(CheckError::Changed(*number));
            }
            parent = Some(body.hash);
            let of_ours = body.transactions.into_iter().filter(|transaction| ours.contains(&transaction.from));
            found.extend(of_ours.map(|transaction| (*number, transaction)));
        }
        let hashes: Vec<B256> = found.iter().map(|(_, transaction)| transaction.hash).collect();
        let receipts = chain.receipts(&hashes).await?;
        for ((block, transaction), receipt) in found.into_iter().zip(receipts) {
            let receipt = receipt.ok_or(CheckError::NoReceipt(transaction.hash))?;
            transactions.push(OnChain {
                block,
                hash: transaction.hash,
                from: transaction.from,
                nonce: transaction.nonce.to(),
                to: transaction.to,
                input: transaction.input,
                succeeded: receipt.status(),
            });
        }
    }
    let mut report = compare(expected, &starts, &transactions);
    report.blocks = Some(blocks);
    Ok(report)
}
