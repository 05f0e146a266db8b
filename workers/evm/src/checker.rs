//! Reads a chain block by block and compares it with what should be there: one transaction for each request, no gap in a
//! wallet's nonces, no transaction that is not an attempt of ours.
//!
//! It trusts the chain and what the caller expects of it; the states that Tidegate's tables hold are not read.

mod report;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use alloy::primitives::{Address, B256, Bytes};
use tidegate::request::RequestId;

pub use self::report::{Report, Violation, WalletLine};

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
/// count of its transactions before the first of these blocks.
#[must_use]
pub fn compare(expected: &Expected, starts: &HashMap<Address, u64>, chain: &[OnChain]) -> Report {
    let mut report = Report {
        requests: expected.requests.len(),
        ..Report::default()
    };
    let mut by_call: HashMap<Call<'_>, Vec<&ExpectedRequest>> = HashMap::new();
    for request in &expected.requests {
        by_call
            .entry((request.to, &request.calldata))
            .or_default()
            .push(request);
    }
    let by_id: HashMap<_, _> = expected.requests.iter().map(|request| (request.id, request)).collect();
    let mut sent: HashMap<Call<'_>, Vec<B256>> = HashMap::new();
    let mut sent_for: HashMap<RequestId, Vec<B256>> = HashMap::new();

    for wallet in &expected.wallets {
        let start = starts.get(&wallet.address).copied().unwrap_or(0);
        let mut next = start.max(wallet.first_nonce);
        let mut line = WalletLine::new(wallet, next);
        let mut mined = HashSet::new();
        for transaction in chain.iter().filter(|transaction| transaction.from == wallet.address) {
            if transaction.nonce < wallet.first_nonce {
                continue;
            }
            if transaction.nonce != next {
                report.violations.push(Violation::Gap {
                    wallet: wallet.name.clone(),
                    expected: next,
                    found: transaction.nonce,
                });
            }
            next = transaction.nonce + 1;
            mined.insert(transaction.nonce);
            line.count(transaction);
            if transaction.succeeded
                && let Some(to) = transaction.to
            {
                sent.entry((to, &transaction.input)).or_default().push(transaction.hash);
            }
            match wallet.attempts.get(&transaction.hash) {
                None => report.violations.push(Violation::Foreign {
                    wallet: wallet.name.clone(),
                    nonce: transaction.nonce,
                    hash: transaction.hash,
                    block: transaction.block,
                }),
                Some(Signed::Filler) => {
                    line.fillers += 1;
                    if transaction.to != Some(wallet.address) || !transaction.input.is_empty() {
                        report.violations.push(Violation::OtherCall {
                            request: None,
                            hash: transaction.hash,
                        });
                    }
                }
                Some(Signed::Own(None)) => {}
                Some(Signed::Own(Some(id))) => {
                    if transaction.succeeded {
                        sent_for.entry(*id).or_default().push(transaction.hash);
                    }
                    let as_expected = by_id.get(id).is_some_and(|request| {
                        transaction.to == Some(request.to) && transaction.input == request.calldata
                    });
                    if !as_expected {
                        report.violations.push(Violation::OtherCall {
                            request: Some(*id),
                            hash: transaction.hash,
                        });
                    }
                }
            }
        }
        let open = (next.max(wallet.first_nonce)..wallet.next_nonce).count();
        line.open = open;
        if expected.at_rest && open > 0 {
            report.violations.push(Violation::Hole {
                wallet: wallet.name.clone(),
                nonce: next,
                open,
            });
        }
        report.wallets.push(line);
    }

    for (call, requests) in by_call {
        let hashes = sent.remove(&call).unwrap_or_default();
        let (least, most) = requests.iter().fold((0, 0), |(least, most), request| {
            let bounds = request.sends.bounds();
            (least + bounds.0, most + bounds.1)
        });
        report.sent += hashes.len();
        let ids = || requests.iter().map(|request| request.id).collect();
        if hashes.len() > most {
            report.violations.push(Violation::TooMany {
                requests: ids(),
                most,
                hashes,
            });
        } else if hashes.len() < least {
            report.violations.push(Violation::TooFew {
                requests: ids(),
                least,
                found: hashes.len(),
            });
        }
    }
    for (id, hashes) in sent_for.into_iter().filter(|(_, hashes)| hashes.len() > 1) {
        report.violations.push(Violation::TooMany {
            requests: vec![id],
            most: 1,
            hashes,
        });
    }
    report.violations.sort();
    report.violations.dedup();
    report
}
