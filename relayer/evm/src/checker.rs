//! Reads a chain block by block and compares it with what should be there: one transaction for each request, no gap in a
//! wallet's nonces, no transaction that is not an attempt of ours.
//!
//! It trusts the chain and what the caller expects of it; the states that Tidegate's tables hold are not read.

mod reading;
mod report;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use alloy::primitives::{Address, B256, Bytes};
use tidegate::request::RequestId;

pub use self::{
    reading::{CheckError, check},
    report::{Report, Violation, WalletLine},
};

/// What the chain is compared with.
#[derive(Debug, Clone, Default)]
pub struct Expected {
    /// The wallets whose transactions are looked at.
    pub wallets: Vec<ExpectedWallet>,
    /// The requests that may have sent something.
    pub requests: Vec<ExpectedRequest>,
    /// Nothing is on its way any more: each nonce that was taken has to be mined.
    pub at_rest: bool,
}

/// A wallet, and all that was ever signed for it.
#[derive(Debug, Clone)]
pub struct ExpectedWallet {
    /// Its name, for the report.
    pub name: String,
    /// Its address.
    pub address: Address,
    /// The first nonce that is Tidegate's.
    pub first_nonce: u64,
    /// The block of that nonce's transaction, if it is known: no transaction before it is Tidegate's.
    pub first_block: Option<u64>,
    /// The nonce above the highest one that was taken.
    pub next_nonce: u64,
    /// What was signed, by the hash of the transaction.
    pub attempts: HashMap<B256, Signed>,
}

/// What a transaction was signed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signed {
    /// The call of this request; `None` for a transaction whose request `resync` could not tell.
    Own(Option<RequestId>),
    /// Using up the nonce.
    Filler,
}

/// A request, and how many successful transactions it should have.
#[derive(Debug, Clone)]
pub struct ExpectedRequest {
    /// Its id.
    pub id: RequestId,
    /// The contract that it calls.
    pub to: Address,
    /// The input of its call.
    pub calldata: Bytes,
    /// How many transactions it should have.
    pub sends: Sends,
}

/// How many successful transactions a request should have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sends {
    /// One: the request has its receipt.
    One,
    /// One or none: it is live, or has ended after it may have been sent.
    AtMostOne,
    /// None: it ended before it could be sent.
    None,
}

impl Sends {
    const fn bounds(self) -> (usize, usize) {
        match self {
            Self::One => (1, 1),
            Self::AtMostOne => (0, 1),
            Self::None => (0, 0),
        }
    }
}

/// A transaction in a block.
#[derive(Debug, Clone)]
pub struct OnChain {
    /// The number of its block.
    pub block: u64,
    /// Its hash.
    pub hash: B256,
    /// Its sender.
    pub from: Address,
    /// The sender's nonce.
    pub nonce: u64,
    /// What it calls; `None` for a contract's creation.
    pub to: Option<Address>,
    /// The input of the call.
    pub input: Bytes,
    /// Whether its receipt has status 1.
    pub succeeded: bool,
}

type Call<'a> = (Address, &'a Bytes);

/// Compares the transactions of some blocks, in the chain's order, with what is expected. `starts` has for each wallet the
/// count of its transactions before the first of these blocks, unless it is at most the wallet's first nonce.
#[must_use]
pub fn compare(expected: &Expected, starts: &HashMap<Address, u64>, chain: &[OnChain]) -> Report {
    let mut comparison = Comparison {
        requests: expected.requests.iter().map(|request| (request.id, request)).collect(),
        by_call: HashMap::new(),
        by_request: HashMap::new(),
        report: Report { requests: expected.requests.len(), ..Report::default() },
    };
    for wallet in &expected.wallets {
        let start = starts.get(&wallet.address).copied().unwrap_or(0);
        comparison.wallet(wallet, start, chain, expected.at_rest);
    }
    comparison.sends(&expected.requests)
}

struct Comparison<'a> {
    requests: HashMap<RequestId, &'a ExpectedRequest>,
    /// The successful transactions with each call.
    by_call: HashMap<Call<'a>, Vec<B256>>,
    /// The successful transactions that were signed for each request.
    by_request: HashMap<RequestId, Vec<B256>>,
    report: Report,
}

impl<'a> Comparison<'a> {
    fn wallet(&mut self, wallet: &ExpectedWallet, start: u64, chain: &'a [OnChain], at_rest: bool) {
        let mut next = start.max(wallet.first_nonce);
        let mut line = WalletLine::new(wallet, next);
        let ours =
            |transaction: &&OnChain| transaction.from == wallet.address && transaction.nonce >= wallet.first_nonce;
        for transaction in chain.iter().filter(ours) {
            if transaction.nonce != next {
                self.violation(Violation::Gap {
                    wallet: wallet.name.clone(),
                    expected: next,
                    found: transaction.nonce,
                });
            }
            next = transaction.nonce + 1;
            line.count(transaction);
            if let (true, Some(to)) = (transaction.succeeded, transaction.to) {
                self.by_call.entry((to, &transaction.input)).or_default().push(transaction.hash);
            }
            match wallet.attempts.get(&transaction.hash) {
                None => self.violation(Violation::Foreign {
                    wallet: wallet.name.clone(),
                    nonce: transaction.nonce,
                    hash: transaction.hash,
                    block: transaction.block,
                }),
                Some(Signed::Filler) => {
                    line.fillers += 1;
                    self.call_of(None, transaction, Some((wallet.address, &Bytes::new())));
                }
                Some(Signed::Own(None)) => {}
                Some(Signed::Own(Some(id))) => {
                    if transaction.succeeded {
                        self.by_request.entry(*id).or_default().push(transaction.hash);
                    }
                    let request = self.requests.get(id);
                    self.call_of(Some(*id), transaction, request.map(|request| (request.to, &request.calldata)));
                }
            }
        }
        line.open = usize::try_from(wallet.next_nonce.saturating_sub(next)).unwrap_or(usize::MAX);
        if at_rest && line.open > 0 {
            self.violation(Violation::Hole { wallet: wallet.name.clone(), nonce: next, open: line.open });
        }
        self.report.wallets.push(line);
    }

    /// A transaction has to have the call of what it was signed for.
    fn call_of(&mut self, request: Option<RequestId>, transaction: &OnChain, wanted: Option<Call<'_>>) {
        let is_it = wanted.is_some_and(|(to, input)| transaction.to == Some(to) && transaction.input == *input);
        if !is_it {
            self.violation(Violation::OtherCall { request, hash: transaction.hash });
        }
    }

    /// How many transactions the requests have, those with one call together and each by itself.
    fn sends(mut self, requests: &'a [ExpectedRequest]) -> Report {
        let mut with_call: HashMap<Call<'_>, Vec<&ExpectedRequest>> = HashMap::new();
        for request in requests {
            with_call.entry((request.to, &request.calldata)).or_default().push(request);
        }
        for (call, requests) in with_call {
            let hashes = self.by_call.remove(&call).unwrap_or_default();
            let bounds = requests.iter().map(|request| request.sends.bounds());
            let (least, most) = bounds.fold((0, 0), |sum, bounds| (sum.0 + bounds.0, sum.1 + bounds.1));
            self.report.sent += hashes.len();
            let requests = requests.iter().map(|request| request.id).collect();
            if hashes.len() > most {
                self.violation(Violation::TooMany { requests, most, hashes });
            } else if hashes.len() < least {
                let found = hashes.len();
                self.violation(Violation::TooFew { requests, least, found });
            }
        }
        let twice = std::mem::take(&mut self.by_request).into_iter().filter(|(_, hashes)| hashes.len() > 1);
        for (id, hashes) in twice {
            let requests = vec![id];
            self.violation(Violation::TooMany { requests, most: 1, hashes });
        }
        self.report.violations.sort();
        self.report.violations.dedup();
        self.report
    }

    fn violation(&mut self, violation: Violation) {
        self.report.violations.push(violation);
    }
}
