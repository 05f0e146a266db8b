//! Makes the database agree with the chain again, for a wallet that is off. It shows what it found, and leaves the wallet
//! off where the chain does not prove what happened.

use std::{fmt, time::Duration};

use alloy::{
    eips::BlockNumberOrTag,
    primitives::{Address, Bytes, U64},
    rpc::types::TransactionReceipt,
};
use chrono::{DateTime, Utc};
use tidegate::request::RequestId;
use tokio::time::{Instant, sleep};

use super::{OperationError, find};
use crate::{
    Chain,
    loss::{Occupant, occupant},
    receipts::noted,
    store::{ResyncSlot, Store, WalletOverview},
};

/// The call of a request that may have been sent: a transaction that the database has forgotten is matched with these.
#[derive(Clone, Debug)]
pub struct Call {
    /// The request.
    pub request: RequestId,
    /// The contract.
    pub to: Address,
    /// The input of the call.
    pub calldata: Bytes,
}

/// What has to be certain.
#[derive(Clone, Copy, Debug)]
pub struct ResyncOptions {
    /// For how long no transaction of the wallet may wait in a pool.
    pub quiet: Duration,
    /// How long to wait for that.
    pub patience: Duration,
    /// How deep a block has to be to be final, on a chain without the tag `finalized`.
    pub lost_depth: u64,
    /// How many endpoints have to agree that a foreign transaction has a nonce.
    pub lost_quorum: usize,
}

impl Default for ResyncOptions {
    fn default() -> Self {
        Self { quiet: Duration::from_secs(30), patience: Duration::from_secs(300), lost_depth: 20, lost_quorum: 1 }
    }
}

/// What was found; shown as lines.
#[derive(Debug)]
pub struct Resync {
    /// The wallet.
    pub name: String,
    /// Why it was off.
    pub cause: String,
    /// What was found at which nonce.
    pub found: Vec<(u64, Finding)>,
    /// Whether it is in use again.
    pub in_use: bool,
}

/// What `resync` found at a nonce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// One of the wallet's own versions is mined.
    Own,
    /// The order's own transaction is mined, which the database had forgotten.
    Adopted(Option<RequestId>),
    /// A foreign transaction has it, in a final block: its order is free.
    Lost,
    /// A final transaction is gone; its keeper uses the nonce up.
    Reopened,
    /// A foreign transaction has it, in a block that is not final yet.
    NotFinal,
    /// The endpoints do not show, or not in agreement, what has used it.
    Unproven,
}

impl Finding {
    const fn is_certain(&self) -> bool {
        !matches!(self, Self::NotFinal | Self::Unproven)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own => write!(f, "mined"),
            Self::Adopted(Some(request)) => write!(f, "adopted: the transaction of request {request}"),
            Self::Adopted(None) => write!(f, "adopted: a transaction of no request that is known"),
            Self::Lost => write!(f, "lost: a foreign transaction has it; the request gets another nonce"),
            Self::Reopened => write!(f, "gone: it was final, and the chain has it no more; the nonce is used up again"),
            Self::NotFinal => write!(f, "a foreign transaction has it, in a block that is not final: try again later"),
            Self::Unproven => write!(f, "the endpoints do not show what has used it: try again with other endpoints"),
        }
    }
}

impl fmt::Display for Resync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} was off: {}", self.name, self.cause)?;
        for (nonce, finding) in &self.found {
            writeln!(f, "nonce {nonce}: {finding}")?;
        }
        match self.in_use {
            true => write!(f, "{} is in use again", self.name),
            false => write!(f, "{} stays off", self.name),
        }
    }
}

/// Compares a wallet that is off with the chain, nonce by nonce, and takes it into use again if nothing is uncertain.
///
/// # Errors
///
/// When the wallet is in use, transactions of it wait in the pools, or the chain or the database does not answer.
pub async fn resync(
    chain: &Chain,
    store: &Store,
    name: &str,
    calls: &[Call],
    options: ResyncOptions,
) -> Result<Resync, OperationError> {
    let wallet = find(store, chain.id(), name).await?;
    let Some(cause) = wallet.off_cause.clone() else {
        return Err(OperationError::InUse(name.to_owned()));
    };
    let latest = wait_for_quiet(chain, &wallet, options).await?;
    let work = Work { chain, store, wallet: &wallet, calls, options, finalized: finalized(chain, options).await? };
    let mut found = work.final_and_gone().await?;
    let first = found.last().map_or(wallet.settled_nonce, |(nonce, _)| *nonce);
    for nonce in first..latest {
        if let Some(finding) = work.nonce(nonce).await? {
            let is_certain = finding.is_certain();
            found.push((nonce, finding));
            if !is_certain {
                break;
            }
        }
    }
    let in_use = found.iter().all(|(_, finding)| finding.is_certain()) && store.resync_end(wallet.id).await?;
    Ok(Resync { name: name.to_owned(), cause, found, in_use })
}

/// Waits until no transaction of the wallet has waited in a pool for a while; returns how many are mined then.
async fn wait_for_quiet(chain: &Chain, wallet: &WalletOverview, options: ResyncOptions) -> Result<u64, OperationError> {
    let began = Instant::now();
    let mut quiet_since = began;
    loop {
        let counts = async |at| {
            let counts = chain.read_everywhere::<U64>("eth_getTransactionCount", (wallet.address, at)).await;
            let most = counts.iter().flatten().max().map(|count| count.to::<u64>());
            match most {
                Some(most) => Ok(most),
                None => chain.transaction_count(wallet.address, at).await,
            }
        };
        let pending = counts(BlockNumberOrTag::Pending).await?;
        let latest = counts(BlockNumberOrTag::Latest).await?;
        if pending > latest {
            quiet_since = Instant::now();
        } else if quiet_since.elapsed() >= options.quiet {
            return Ok(latest);
        }
        if began.elapsed() >= options.patience {
            return Err(OperationError::Pending { name: wallet.name.clone(), latest, pending });
        }
        sleep(Duration::from_secs(1).min(options.quiet)).await;
    }
}

async fn finalized(chain: &Chain, options: ResyncOptions) -> Result<u64, OperationError> {
    Ok(match chain.finalized().await? {
        Some(finalized) => finalized,
        None => chain.block_number().await?.saturating_sub(options.lost_depth),
    })
}

struct Work<'a> {
    chain: &'a Chain,
    store: &'a Store,
    wallet: &'a WalletOverview,
    calls: &'a [Call],
    options: ResyncOptions,
    finalized: u64,
}

impl Work<'_> {
    /// Opens the final transactions again that the chain has no more, the highest nonce first.
    async fn final_and_gone(&self) -> Result<Vec<(u64, Finding)>, OperationError> {
        let mut gone = Vec::new();
        for nonce in (self.wallet.first_nonce..self.wallet.settled_nonce).rev() {
            let Some(slot) = self.store.resync_slot(self.wallet.id, nonce).await? else {
                break;
            };
            if slot.state == "lost" {
                continue;
            }
            if self.receipt(&slot).await?.is_some() || !self.store.resync_reopen(self.wallet.id, nonce).await? {
                break;
            }
            gone.push((nonce, Finding::Reopened));
        }
        Ok(gone)
    }

    /// A receipt of one of a transaction's versions.
    async fn receipt(&self, slot: &ResyncSlot) -> Result<Option<TransactionReceipt>, OperationError> {
        for hash in &slot.hashes {
            let found = self.chain.find("eth_getTransactionReceipt", (hash,), self.finalized).await?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Settles a nonce that the chain has used; `None` when the database knew all about it.
    async fn nonce(&self, nonce: u64) -> Result<Option<Finding>, OperationError> {
        let slot = self.store.resync_slot(self.wallet.id, nonce).await?;
        if let Some(slot) = &slot {
            if matches!(slot.state.as_str(), "final" | "lost" | "void") {
                return Ok(None);
            }
            if let Some(receipt) = self.receipt(slot).await? {
                self.note(&receipt).await?;
                return Ok((slot.state != "mined").then_some(Finding::Own));
            }
        }
        let since = slot.as_ref().map_or(DateTime::<Utc>::UNIX_EPOCH, |slot| slot.signed_at);
        let Some(found) = occupant(self.chain, self.wallet.address, nonce, since).await? else {
            return Ok(Some(Finding::Unproven));
        };
        if found.agreeing < self.options.lost_quorum {
            return Ok(Some(Finding::Unproven));
        }
        match slot {
            Some(slot) if slot.hashes.contains(&found.transaction.hash) => Ok(Some(Finding::Unproven)),
            Some(_) => self.known(nonce, &found).await.map(Some),
            None => self.forgotten(nonce, &found).await.map(Some),
        }
    }

    /// Another transaction has a nonce that is an order's.
    async fn known(&self, nonce: u64, found: &Occupant) -> Result<Finding, OperationError> {
        if self.store.adopt_version(self.wallet.id, nonce, &found.transaction).await? {
            let request = self.request_of(found);
            return self.adopted(found, request).await;
        }
        if found.block > self.finalized {
            return Ok(Finding::NotFinal);
        }
        let lost = self.store.resync_lose(self.wallet.id, nonce).await?;
        Ok(if lost { Finding::Lost } else { Finding::Unproven })
    }

    /// A transaction has a nonce that the database has not given out.
    async fn forgotten(&self, nonce: u64, found: &Occupant) -> Result<Finding, OperationError> {
        let request = self.request_of(found);
        if !self.store.resync_insert(self.wallet.id, nonce, request, &found.transaction).await? {
            return Ok(Finding::Unproven);
        }
        self.adopted(found, request).await
    }

    fn request_of(&self, found: &Occupant) -> Option<RequestId> {
        let transaction = &found.transaction;
        let mut calls = self.calls.iter();
        let call = calls.find(|call| Some(call.to) == transaction.to && call.calldata == transaction.input);
        call.map(|call| call.request)
    }

    async fn adopted(&self, found: &Occupant, request: Option<RequestId>) -> Result<Finding, OperationError> {
        let hash = found.transaction.hash;
        let receipt: Option<TransactionReceipt> =
            self.chain.find("eth_getTransactionReceipt", (hash,), found.block).await?;
        match receipt {
            Some(receipt) => {
                self.note(&receipt).await?;
                Ok(Finding::Adopted(request))
            }
            None => Ok(Finding::Unproven),
        }
    }

    async fn note(&self, receipt: &TransactionReceipt) -> Result<(), OperationError> {
        if let Some(receipt) = noted(receipt) {
            self.store.note_mined(&[receipt]).await?;
        }
        Ok(())
    }
}
