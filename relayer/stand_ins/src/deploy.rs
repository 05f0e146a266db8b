//! Deploys contracts, and works their switches.

use alloy::primitives::{Address, B256, Bytes, TxKind, U256, address};
use alloy::sol_types::SolCall;
use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use crate::artefacts::artefact;
use crate::rpc::Rpc;

/// The account that deploys, and that throws switches: none of anvil's own, so that their nonces stay 0, and contracts have
/// the same addresses on every chain.
pub const OPERATOR: Address = address!("00000000000000000000000000000000000a11ce");

/// Sends transactions of the operator. They are mined by [`mined`](Operator::mined).
#[derive(Debug)]
pub struct Operator {
    rpc: Rpc,
    nonce: u64,
    sent: Vec<B256>,
}

impl Operator {
    /// The operator of a chain.
    ///
    /// # Errors
    ///
    /// When the chain is not an anvil that can be reached.
    pub async fn new(rpc: &Rpc) -> anyhow::Result<Operator> {
        unlock(rpc, OPERATOR).await?;
        let nonce: alloy::primitives::U64 = rpc.call("eth_getTransactionCount", (OPERATOR, "pending")).await?;
        Ok(Operator { rpc: rpc.clone(), nonce: nonce.to(), sent: Vec::new() })
    }

    /// Deploys a contract, with the encoded arguments of its constructor, and answers its address.
    ///
    /// # Errors
    ///
    /// When the node refuses the transaction.
    pub async fn deploy(&mut self, name: &str, arguments: &[u8]) -> anyhow::Result<Address> {
        let code = [&artefact(name)?.bytecode[..], arguments].concat();
        let address = OPERATOR.create(self.nonce);
        self.transact(TxKind::Create, code.into()).await.with_context(|| format!("deploying {name}"))?;
        Ok(address)
    }

    /// Calls a contract in a transaction.
    ///
    /// # Errors
    ///
    /// When the node refuses the transaction.
    pub async fn send<C: SolCall>(&mut self, to: Address, call: &C) -> anyhow::Result<()> {
        self.transact(TxKind::Call(to), call.abi_encode().into()).await.with_context(|| C::SIGNATURE)
    }

    async fn transact(&mut self, to: TxKind, input: Bytes) -> anyhow::Result<()> {
        let transaction = transaction(OPERATOR, to, &input, self.nonce, 6_000_000);
        self.sent.push(self.rpc.call("eth_sendTransaction", [transaction]).await?);
        self.nonce += 1;
        Ok(())
    }

    /// Mines what was sent.
    ///
    /// # Errors
    ///
    /// When a transaction reverted.
    pub async fn mined(&mut self) -> anyhow::Result<()> {
        self.rpc.call::<Value>("evm_mine", ()).await?;
        for hash in self.sent.drain(..) {
            let receipt = self.rpc.mined(hash).await?;
            ensure!(receipt.status(), "the operator's transaction {hash} reverted");
        }
        Ok(())
    }
}

/// A transaction of an unlocked account. Its price is high enough for every base fee of a test.
pub(crate) fn transaction(from: Address, to: TxKind, input: &Bytes, nonce: u64, gas: u64) -> Value {
    json!({
        "from": from, "to": to.to().copied(), "input": input, "nonce": U256::from(nonce), "gas": U256::from(gas),
        "maxFeePerGas": U256::from(1_000_000_000_000_u64), "maxPriorityFeePerGas": U256::from(10_000_000_000_u64),
    })
}

/// Lets anvil send transactions of an account without its key, and gives it money for gas.
pub(crate) async fn unlock(rpc: &Rpc, account: Address) -> anyhow::Result<()> {
    rpc.call::<Value>("anvil_impersonateAccount", [account]).await?;
    rpc.call::<Value>("anvil_setBalance", (account, U256::from(10).pow(U256::from(24)))).await?;
    Ok(())
}
