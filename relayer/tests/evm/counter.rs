//! A chain with a contract that counts its calls.

use alloy::{
    primitives::{Address, B256, Bytes, U64},
    rpc::types::Log,
    sol_types::{SolCall, SolEvent},
};
use serde_json::json;
use tidegate::request::RequestId;
use tidegate_evm::Chain;
use tidegate_fhevm_stand_ins::{
    abi::{Counter, Requests},
    chain::{Anvil, ChainOptions, Mining},
    deploy::Operator,
};

use super::orders::key;

/// A chain with the contract, on which the keys of [`key`] have ether.
pub struct Counted {
    pub anvil: Anvil,
    pub contract: Address,
}

/// The name of a request in the contract.
pub fn name(request: RequestId) -> B256 {
    B256::right_padding_from(request.0.as_bytes())
}

/// Counts a request.
pub fn count(request: RequestId) -> Bytes {
    let order = name(request);
    Counter::countCall { order }.abi_encode().into()
}

/// Reverts.
pub fn refuse(request: RequestId) -> Bytes {
    let order = name(request);
    Counter::refuseCall { order }.abi_encode().into()
}

impl Counted {
    pub async fn start(mining: Mining) -> Self {
        let options = ChainOptions { mining, ..ChainOptions::default() };
        let anvil = Anvil::start(options).await.unwrap();
        let mut operator = Operator::new(anvil.rpc()).await.unwrap();
        let contract = operator.deploy("Counter", &[]).await.unwrap();
        operator.mined().await.unwrap();
        for number in 1..=4 {
            let ether = alloy::primitives::utils::parse_ether("10000").unwrap();
            anvil.set_balance(key(number).address(), ether).await.unwrap();
        }
        Self { anvil, contract }
    }

    pub async fn chain(&self) -> Chain {
        Chain::connect(self.anvil.chain_id(), &[self.anvil.url().clone()]).await.unwrap()
    }

    /// Makes all further calls revert with this, in a transaction that pays more than others.
    pub async fn fail(&self, data: &[u8]) {
        let mut operator = Operator::new(self.anvil.rpc()).await.unwrap();
        let call = Requests::setFaultCall {
            revertData: Bytes::copy_from_slice(data),
            block_: alloy::primitives::U256::ZERO,
            mined: false,
        };
        operator.send(self.contract, &call).await.unwrap();
        operator.mined().await.unwrap();
    }

    /// The requests that were counted, once for each call.
    pub async fn counted(&self) -> Vec<B256> {
        let filter =
            json!({ "fromBlock": "0x0", "address": self.contract, "topics": [Counter::Counted::SIGNATURE_HASH] });
        let logs: Vec<Log> = self.anvil.rpc().call("eth_getLogs", [filter]).await.unwrap();
        logs.iter().map(|log| log.topics()[2]).collect()
    }

    /// How many transactions of an account are mined.
    pub async fn mined(&self, account: Address) -> u64 {
        let count: U64 = self.anvil.rpc().call("eth_getTransactionCount", (account, "latest")).await.unwrap();
        count.to()
    }
}
