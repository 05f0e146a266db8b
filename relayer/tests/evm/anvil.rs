//! Facts about anvil, on which the other tests rely.

mod answers;
mod pool;

use alloy::{
    consensus::{SignableTransaction, TxEip1559},
    eips::eip2718::Encodable2718,
    network::TxSignerSync,
    primitives::{B256, Bytes, TxKind, U256},
};
use serde_json::{Value, json};
use tidegate_fhevm_stand_ins::chain::{Anvil, ChainOptions, Mining};

const GWEI: u128 = 1_000_000_000;

/// A chain that makes blocks on demand.
pub(crate) async fn on_demand(chain_id: u64) -> Anvil {
    let mining = Mining::OnDemand;
    let options = ChainOptions { chain_id, mining, ..ChainOptions::default() };
    Anvil::start(options).await.unwrap()
}

/// A transaction that account 0 sends to itself, but for a change.
pub(crate) fn signed(anvil: &Anvil, nonce: u64, change: impl FnOnce(&mut TxEip1559)) -> Bytes {
    let key = &anvil.keys()[0];
    let mut transaction = TxEip1559 {
        chain_id: 31337,
        nonce,
        gas_limit: 21_000,
        max_fee_per_gas: 10 * GWEI,
        max_priority_fee_per_gas: 1,
        to: TxKind::Call(key.address()),
        ..TxEip1559::default()
    };
    change(&mut transaction);
    let signature = key.sign_transaction_sync(&mut transaction).unwrap();
    transaction.into_signed(signature).encoded_2718().into()
}

/// Sends a transaction, and returns its hash.
async fn sent(chain: &Anvil, raw: &Bytes) -> B256 {
    chain.rpc().call("eth_sendRawTransaction", (raw,)).await.unwrap()
}

/// Sends transactions of these nonces.
async fn pay(chain: &Anvil, nonces: std::ops::Range<u64>) -> Vec<B256> {
    let mut hashes = Vec::new();
    for nonce in nonces {
        hashes.push(sent(chain, &signed(chain, nonce, |_| {})).await);
    }
    hashes
}

/// Whether the chain has a transaction, in the pool or in a block.
async fn knows(chain: &Anvil, hash: B256) -> bool {
    !chain.rpc().call::<Value>("eth_getTransactionByHash", (hash,)).await.unwrap().is_null()
}

#[tokio::test]
async fn a_chain_ends_with_its_value() {
    let chain = on_demand(31337).await;
    let url = chain.url().clone();
    assert_eq!(chain.keys().len(), 10);
    drop(chain);
    assert!(reqwest::get(url).await.unwrap_err().is_connect());
}

#[tokio::test]
async fn a_reorg_replaces_blocks_and_forgets_their_transactions() {
    let chain = on_demand(31337).await;
    chain.mine(1).await.unwrap();
    let first = pay(&chain, 0..1).await[0];
    chain.mine(1).await.unwrap();
    let second = pay(&chain, 1..2).await[0];
    chain.mine(1).await.unwrap();
    let before = chain.block(3).await.unwrap().unwrap();
    assert!(chain.receipt(second).await.unwrap().unwrap().status());

    chain.reorg(2).await.unwrap();
    assert_eq!(chain.block_number().await.unwrap(), 3, "the same height");
    assert_ne!(chain.block(3).await.unwrap().unwrap().header.hash, before.header.hash);
    assert!(!knows(&chain, first).await && !knows(&chain, second).await);
    chain.mine(1).await.unwrap();
    assert!(chain.block(4).await.unwrap().unwrap().transactions.is_empty(), "they are not in the pool");

    let mined_again = signed(&chain, 0, |_| {});
    chain.reorg_with(2, &[(mined_again, 1)]).await.unwrap();
    let receipt = chain.receipt(first).await.unwrap().unwrap();
    assert_eq!(receipt.block_number, Some(4), "in the second of the two blocks");
}

#[tokio::test]
async fn a_snapshot_can_be_used_once_and_leaves_the_pool_alone() {
    let chain = on_demand(31337).await;
    let of = chain.keys()[0].address();
    let snapshot = chain.snapshot().await.unwrap();
    chain.set_balance(of, U256::from(7)).await.unwrap();
    chain.revert(snapshot).await.unwrap();
    assert_ne!(chain.rpc().call::<U256>("eth_getBalance", (of, "latest")).await.unwrap(), U256::from(7));
    chain.revert(snapshot).await.unwrap_err();

    let snapshot = chain.snapshot().await.unwrap();
    let waits = pay(&chain, 0..1).await[0];
    chain.revert(snapshot).await.unwrap();
    assert!(knows(&chain, waits).await);
}

#[tokio::test]
async fn finalized_is_two_epochs_behind_also_after_a_reorg() {
    let chain = on_demand(31337).await;
    let finalized =
        async || chain.block(alloy::eips::BlockNumberOrTag::Finalized).await.unwrap().unwrap().header.number;
    assert_eq!(finalized().await, 0);
    chain.mine(30).await.unwrap();
    assert_eq!(finalized().await, 10);
    chain.reorg(3).await.unwrap();
    assert_eq!(finalized().await, 10);
}

#[tokio::test]
async fn old_blocks_their_receipts_and_senders_can_be_read() {
    let chain = on_demand(31337).await;
    let of = chain.keys()[0].address();
    chain.mine(1).await.unwrap();
    let hash = pay(&chain, 0..1).await[0];
    chain.mine(1).await.unwrap();
    let call = |method: &'static str, params: Value| {
        let chain = &chain;
        async move { chain.rpc().call::<Value>(method, params).await.unwrap() }
    };
    let by_nonce = call("eth_getTransactionBySenderAndNonce", json!([of, "0x0"])).await;
    assert_eq!(by_nonce["hash"], json!(hash));
    let receipts = call("eth_getBlockReceipts", json!(["0x2"])).await;
    assert_eq!(receipts[0]["transactionHash"], json!(hash));
    assert_eq!(call("eth_getTransactionCount", json!([of, "0x1"])).await, "0x0");
    assert_eq!(call("eth_getTransactionCount", json!([of, "0x2"])).await, "0x1");
}
