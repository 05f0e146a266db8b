//! What operators do with wallets: functions whose results are texts for people.

mod resync;

use std::fmt;

use alloy::{eips::BlockNumberOrTag, primitives::U256};

pub use self::resync::{Call, Finding, Resync, ResyncOptions, resync};
use crate::{
    Chain, RpcError,
    keeper::funds::{Funds, Standing, standing},
    store::{Store, StoreError, WalletOverview},
};

/// Why an operation was not done.
#[derive(Debug, thiserror::Error)]
pub enum OperationError {
    /// There is no such wallet.
    #[error("chain {chain} has no wallet {name}: `wallet list` shows those that it has")]
    Unknown {
        /// The chain.
        chain: u64,
        /// The name that was given.
        name: String,
    },
    /// Only a wallet that is off can be resynchronised.
    #[error("wallet {0} is in use: only one that is off can be resynchronised; see `wallet off`")]
    InUse(String),
    /// A wallet that is off comes back by `resync` only.
    #[error("wallet {0} is off: {1}; take it into use again with `wallet resync`")]
    Off(String, String),
    /// Transactions of the wallet wait in the pools.
    #[error(
        "wallet {name} has {pending} transactions with those that wait, and {latest} mined: stop what else uses its key, \
         and resynchronise when they are equal"
    )]
    Pending {
        /// The wallet.
        name: String,
        /// Its transactions that are mined.
        latest: u64,
        /// The same with those that wait.
        pending: u64,
    },
    /// The chain did not answer.
    #[error(transparent)]
    Endpoint(#[from] RpcError),
    /// The database did not answer.
    #[error(transparent)]
    Database(#[from] StoreError),
}

/// A wallet by its name.
///
/// # Errors
///
/// When the chain has no such wallet.
pub async fn find(store: &Store, chain: u64, name: &str) -> Result<WalletOverview, OperationError> {
    let wallets = store.overview(chain).await?;
    let wallet = wallets.into_iter().find(|wallet| wallet.name == name);
    wallet.ok_or_else(|| OperationError::Unknown { chain, name: name.to_owned() })
}

/// The wallets of a chain; shown as a table.
pub struct WalletList {
    /// The chain.
    pub chain: u64,
    /// Its wallets.
    pub wallets: Vec<WalletOverview>,
}

/// Lists the wallets of a chain.
///
/// # Errors
///
/// When the database does not answer.
pub async fn list(store: &Store, chain: u64) -> Result<WalletList, OperationError> {
    let wallets = store.overview(chain).await?;
    Ok(WalletList { chain, wallets })
}

impl fmt::Display for WalletList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.wallets.is_empty() {
            let chain = self.chain;
            return write!(f, "chain {chain} has no wallet: `wallet add NAME` adopts one");
        }
        write!(
            f,
            "{:<20} {:<42} {:<9} {:>10} {:>10} {:>10} {:>10}",
            "wallet", "address", "state", "first", "final", "next", "in flight"
        )?;
        for wallet in &self.wallets {
            write!(
                f,
                "\n{:<20} {:<42} {:<9} {:>10} {:>10} {:>10} {:>10}",
                wallet.name,
                wallet.address.to_checksum(None),
                wallet.state,
                wallet.first_nonce,
                wallet.settled_nonce,
                wallet.next_nonce,
                format!("{}/{}", wallet.in_flight, wallet.in_flight_max)
            )?;
            for cause in wallet.off_cause.iter().chain(&wallet.unfunded_cause) {
                write!(f, "\n  {cause}")?;
            }
        }
        Ok(())
    }
}

/// What a wallet has, and how it stands on the chain; shown as lines.
pub struct WalletCheck {
    /// The wallet by the database.
    pub wallet: WalletOverview,
    /// Its transactions that are mined.
    pub latest: u64,
    /// The same with those that wait.
    pub pending: u64,
    /// Its funds.
    pub standing: Standing,
}

/// Reads what a wallet has, and how it stands on the chain.
///
/// # Errors
///
/// When the chain has no such wallet, or does not answer.
pub async fn check(chain: &Chain, store: &Store, name: &str, funds: &Funds) -> Result<WalletCheck, OperationError> {
    let wallet = find(store, chain.id(), name).await?;
    let latest = chain.transaction_count(wallet.address, BlockNumberOrTag::Latest).await?;
    let pending = chain.transaction_count(wallet.address, BlockNumberOrTag::Pending).await?;
    let standing = standing(chain, wallet.address, wallet.in_flight_max, wallet.gas_limit, funds).await?;
    Ok(WalletCheck { wallet, latest, pending, standing })
}

impl fmt::Display for WalletCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (wallet, standing) = (&self.wallet, &self.standing);
        writeln!(f, "wallet    {} ({}), {}", wallet.name, wallet.address.to_checksum(None), wallet.state)?;
        let (next, flight) = (wallet.next_nonce, wallet.in_flight);
        writeln!(
            f,
            "nonces    next {next}, {flight} in flight; mined {}, pending count {}",
            self.latest, self.pending
        )?;
        writeln!(f, "gas       {} wei, up to {} for a transaction", standing.native, standing.gas_price)?;
        if let Some(token) = &standing.token {
            writeln!(f, "tokens    {}, {} for the dearest request", token.balance, token.price)?;
            writeln!(f, "allowance {}", token.allowance)?;
        }
        let left = standing.requests_left();
        let left = if left == U256::MAX { "any number of".to_owned() } else { left.to_string() };
        write!(f, "pays for  {left} requests")?;
        for cause in standing.shortage().iter().chain(&wallet.off_cause) {
            write!(f, "\n  {cause}")?;
        }
        Ok(())
    }
}

/// Lets a wallet finish what it has, and take no new orders. Returns what was done.
///
/// # Errors
///
/// When there is no such wallet, or it is off.
pub async fn drain(store: &Store, chain: u64, name: &str) -> Result<String, OperationError> {
    let wallet = find(store, chain, name).await?;
    if let Some(cause) = wallet.off_cause {
        return Err(OperationError::Off(name.to_owned(), cause));
    }
    let (turned, flight) = (store.turn(wallet.id, "draining", None).await?, wallet.in_flight);
    Ok(if turned {
        format!("{name} takes no new orders; {flight} transactions are in flight")
    } else {
        format!("{name} is draining already; {flight} transactions are in flight")
    })
}

/// Takes a wallet out of use: nothing of it is sent any more, and nothing that it has is freed. Returns what was done.
///
/// # Errors
///
/// When there is no such wallet.
pub async fn off(store: &Store, chain: u64, name: &str) -> Result<String, OperationError> {
    let wallet = find(store, chain, name).await?;
    let turned = store.turn(wallet.id, "off", Some("an operator took it out of use")).await?;
    Ok(if turned {
        format!("{name} is off: its {} orders in flight wait until `wallet resync`", wallet.in_flight)
    } else {
        format!("{name} was off already")
    })
}
