//! What a check looked at, and what it found.

use std::{fmt, ops::RangeInclusive};

use alloy::primitives::B256;
use tidegate::request::RequestId;

use super::{ExpectedWallet, OnChain};

/// The outcome of a check.
#[derive(Debug, Default)]
pub struct Report {
    /// The blocks that were read; `None` without a reading.
    pub blocks: Option<RangeInclusive<u64>>,
    /// One line for each wallet.
    pub wallets: Vec<WalletLine>,
    /// How many requests were compared.
    pub requests: usize,
    /// How many successful transactions were found that have the call of one of them.
    pub sent: usize,
    /// What is not as it should be.
    pub violations: Vec<Violation>,
}

/// What was found of one wallet.
#[derive(Debug, Clone)]
pub struct WalletLine {
    /// Its name.
    pub name: String,
    /// The first nonce that was compared.
    pub first: u64,
    /// Transactions in blocks.
    pub mined: usize,
    /// Those of them that failed.
    pub reverted: usize,
    /// Those of them that only used a nonce up.
    pub fillers: usize,
    /// Nonces that were taken and are not mined.
    pub open: usize,
}

impl WalletLine {
    pub(super) fn new(wallet: &ExpectedWallet, first: u64) -> Self {
        Self { name: wallet.name.clone(), first, mined: 0, reverted: 0, fillers: 0, open: 0 }
    }

    pub(super) fn count(&mut self, transaction: &OnChain) {
        self.mined += 1;
        self.reverted += usize::from(!transaction.succeeded);
    }
}

/// Something on the chain, or missing there, that breaks a promise.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Violation {
    /// A transaction of a wallet that Tidegate did not sign.
    #[error("wallet {wallet}: nonce {nonce} was used by {hash} in block {block}, which is no attempt of Tidegate")]
    Foreign {
        /// The wallet.
        wallet: String,
        /// The nonce.
        nonce: u64,
        /// The foreign transaction.
        hash: B256,
        /// Its block.
        block: u64,
    },
    /// The nonces of a wallet's transactions do not follow each other.
    #[error("wallet {wallet}: nonce {found} was mined where nonce {expected} is next")]
    Gap {
        /// The wallet.
        wallet: String,
        /// The nonce that should have come.
        expected: u64,
        /// The one that came.
        found: u64,
    },
    /// Nonces were taken that were never used.
    #[error("wallet {wallet}: {open} nonces from {nonce} on were taken and are not mined")]
    Hole {
        /// The wallet.
        wallet: String,
        /// The lowest of them.
        nonce: u64,
        /// How many there are.
        open: usize,
    },
    /// A transaction has another call than what it was signed for.
    #[error("transaction {hash} has not the call of {}", named(*.request))]
    OtherCall {
        /// The request; `None` for a filler.
        request: Option<RequestId>,
        /// The transaction.
        hash: B256,
    },
    /// Requests have more successful transactions than they may.
    #[error("{} successful transactions for {}, which may have {most}: {}", .hashes.len(), list(.requests), list(.hashes))]
    TooMany {
        /// The requests with this call.
        requests: Vec<RequestId>,
        /// How many transactions they may have together.
        most: usize,
        /// Those that they have.
        hashes: Vec<B256>,
    },
    /// Requests have fewer successful transactions than they should.
    #[error("{found} successful transactions for {}, which should have {least}", list(.requests))]
    TooFew {
        /// The requests with this call.
        requests: Vec<RequestId>,
        /// How many transactions they should have together.
        least: usize,
        /// How many they have.
        found: usize,
    },
}

fn named(request: Option<RequestId>) -> String {
    request.map_or_else(|| "a filler".to_owned(), |id| format!("request {id}"))
}

fn list(items: &[impl ToString]) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(blocks) = &self.blocks {
            writeln!(f, "blocks {} to {}", blocks.start(), blocks.end())?;
        }
        writeln!(
            f,
            "{:<20} {:>12} {:>8} {:>8} {:>8} {:>8}",
            "wallet", "from nonce", "mined", "reverted", "fillers", "open"
        )?;
        for line in &self.wallets {
            writeln!(
                f,
                "{:<20} {:>12} {:>8} {:>8} {:>8} {:>8}",
                line.name, line.first, line.mined, line.reverted, line.fillers, line.open
            )?;
        }
        writeln!(f, "{} requests, {} successful transactions of them", self.requests, self.sent)?;
        for violation in &self.violations {
            writeln!(f, "VIOLATION: {violation}")?;
        }
        write!(f, "{} violations", self.violations.len())
    }
}
