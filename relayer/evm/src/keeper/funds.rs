//! Whether a wallet can pay for what it sends: gas, and tokens that a contract takes for each call.

use alloy::{
    eips::BlockNumberOrTag,
    primitives::{Address, Bytes, U256},
    sol,
    sol_types::SolCall,
};
use futures_util::future::try_join_all;

use super::{Keeper, KeeperError, View};
use crate::{CallError, CallRequest, Chain, RpcError, metrics};

/// For how long a wallet's reserve lasts after it was read, in seconds.
const SECONDS: u64 = 15;

sol! {
    function balanceOf(address owner) returns (uint256);
    function allowance(address owner, address spender) returns (uint256);
}

/// What a wallet needs.
#[derive(Clone, Debug)]
pub struct Funds {
    /// How many transactions it sends in a second, at most.
    pub rate: u64,
    /// The gas limit of a transaction, before any was sent.
    pub gas_limit: u64,
    /// The token that calls are paid with, if they are.
    pub token: Option<TokenFunds>,
}

impl Default for Funds {
    fn default() -> Self {
        Self { rate: 20, gas_limit: 500_000, token: None }
    }
}

/// An ERC-20 token that a contract takes from the sender of each call.
#[derive(Clone, Debug)]
pub struct TokenFunds {
    /// The token.
    pub token: Address,
    /// The contract that takes it, and needs an allowance.
    pub spender: Address,
    /// Calls that return the price of one request, each of another sort.
    pub prices: Vec<CallRequest>,
}

/// What a wallet has, and what it needs for the transactions that may be under way before the next look.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// How many transactions that is.
    pub transactions: u64,
    /// Its gas money.
    pub native: U256,
    /// The gas money that a transaction may cost.
    pub gas_price: U256,
    /// Its tokens, if calls are paid with them.
    pub token: Option<TokenStanding>,
}

/// What a wallet has of a token.
#[derive(Clone, Copy, Debug)]
pub struct TokenStanding {
    /// Its tokens.
    pub balance: U256,
    /// How many of them the spender may take.
    pub allowance: U256,
    /// The price of the dearest sort of request.
    pub price: U256,
}

impl Standing {
    /// How many transactions it can pay for.
    #[must_use]
    pub fn requests_left(&self) -> U256 {
        let by = |balance: U256, price: U256| balance.checked_div(price).unwrap_or(U256::MAX);
        let tokens = self.token.map(|token| by(token.balance.min(token.allowance), token.price));
        by(self.native, self.gas_price).min(tokens.unwrap_or(U256::MAX))
    }

    /// Why it should take no new orders.
    #[must_use]
    pub fn shortage(&self) -> Option<String> {
        let needed = |price: U256| price.saturating_mul(U256::from(self.transactions));
        let (transactions, native) = (self.transactions, needed(self.gas_price));
        if self.native < native {
            return Some(format!("gas: it has {} wei and needs {native} for {transactions} transactions", self.native));
        }
        let token = self.token?;
        let tokens = needed(token.price);
        if token.balance < tokens {
            let balance = token.balance;
            return Some(format!(
                "balance: it has {balance} tokens and needs {tokens} for {transactions} transactions"
            ));
        }
        (token.allowance < tokens).then(|| {
            let allowance = token.allowance;
            format!(
                "allowance: {allowance} tokens may be taken and {tokens} are needed for {transactions} transactions"
            )
        })
    }
}

/// Reads what an account has.
pub(crate) async fn standing(
    chain: &Chain,
    owner: Address,
    in_flight_max: u32,
    gas_limit: Option<u64>,
    funds: &Funds,
) -> Result<Standing, RpcError> {
    let max_fee = chain.suggested_fees().await?.max_fee;
    let native = chain.read("eth_getBalance", (owner, BlockNumberOrTag::Latest)).await?;
    let token = match &funds.token {
        None => None,
        Some(funds) => {
            let of_token = |input: Vec<u8>| CallRequest::default().to(funds.token).input(Bytes::from(input).into());
            let balance = of_token(balanceOfCall { owner }.abi_encode());
            let allowance = of_token(allowanceCall { owner, spender: funds.spender }.abi_encode());
            let prices = try_join_all(funds.prices.iter().map(|price| number(chain, price))).await?;
            Some(TokenStanding {
                balance: number(chain, &balance).await?,
                allowance: number(chain, &allowance).await?,
                price: prices.into_iter().max().unwrap_or_default(),
            })
        }
    };
    Ok(Standing {
        transactions: u64::from(in_flight_max) + SECONDS * funds.rate,
        native,
        gas_price: U256::from(gas_limit.unwrap_or(funds.gas_limit)).saturating_mul(U256::from(max_fee)),
        token,
    })
}

/// The number that a contract returns.
async fn number(chain: &Chain, call: &CallRequest) -> Result<U256, RpcError> {
    let unexpected = |cause: &str| RpcError::Unexpected { method: "eth_call", cause: cause.to_owned() };
    match chain.call(call, BlockNumberOrTag::Latest).await {
        Ok(data) if data.len() >= 32 => Ok(U256::from_be_slice(&data[..32])),
        Ok(_) => Err(unexpected("a balance or a price is no number: correct the contract's address")),
        Err(CallError::Reverted(_)) => Err(unexpected("the call for a balance or a price reverts")),
        Err(CallError::Rpc(error)) => Err(error),
    }
}

impl Keeper {
    /// Reads every 15 seconds what the wallet has. It takes no new orders as long as that is too little.
    pub(super) async fn watch_funds(&self, epoch: i64, view: &View) -> Result<(), KeeperError> {
        let now = view.wallet.at;
        let last = self.memory().funds_at;
        if last.is_some_and(|last| (now - last).num_seconds() < SECONDS.cast_signed()) {
            return Ok(());
        }
        let wallet = &view.wallet;
        let funds = &self.options.funds;
        let standing = standing(&self.chain, self.address(), wallet.in_flight_max, wallet.gas_limit, funds).await?;
        metrics::balance(&self.name, "native", standing.native);
        if let Some(token) = standing.token {
            metrics::balance(&self.name, "token", token.balance);
            metrics::balance(&self.name, "allowance", token.allowance);
        }
        let shortage = standing.shortage();
        let changed = self.store.keeper_fund(self.wallet, epoch, shortage.as_deref()).await?;
        let wallet = &self.name;
        match shortage {
            Some(cause) if changed => {
                tracing::error!(wallet, cause, "the wallet takes no new orders until it has funds");
            }
            None if changed => tracing::info!(wallet, "the wallet has funds again"),
            _ => {}
        }
        self.memory().funds_at = Some(now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(native: u64, balance: u64, allowance: u64) -> Standing {
        Standing {
            transactions: 10,
            native: U256::from(native),
            gas_price: U256::from(7),
            token: Some(TokenStanding {
                balance: U256::from(balance),
                allowance: U256::from(allowance),
                price: U256::from(3),
            }),
        }
    }

    #[test]
    fn the_scarcest_of_gas_balance_and_allowance_decides() {
        let left = |standing: Standing| standing.requests_left().to::<u64>();
        assert_eq!(left(standing(70, 30, 30)), 10);
        assert_eq!(left(standing(69, 30, 30)), 9);
        assert_eq!(left(standing(70, 29, 300)), 9);
        assert_eq!(left(standing(700, 300, 5)), 1);
    }

    #[test]
    fn a_shortage_names_what_is_missing() {
        let short = |native, balance, allowance| standing(native, balance, allowance).shortage();
        assert_eq!(short(70, 30, 30), None);
        let word = |shortage: Option<String>| shortage.unwrap().split(':').next().unwrap().to_owned();
        assert_eq!(word(short(69, 30, 30)), "gas");
        assert_eq!(word(short(70, 29, 30)), "balance");
        assert_eq!(word(short(70, 30, 29)), "allowance");
    }
}
