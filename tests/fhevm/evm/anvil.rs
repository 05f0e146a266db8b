//! Facts about anvil, on which the other tests rely.

use alloy::{
    primitives::{B256, U256},
    rpc::types::TransactionRequest,
};
use serde_json::Value;
use tidegate_fhevm_stand_ins::chain::{Anvil, ChainOptions, Mining};

async fn on_demand() -> Anvil {
    Anvil::start(ChainOptions {
        mining: Mining::OnDemand,
        ..ChainOptions::default()
    })
    .await
    .unwrap()
}

/// A transaction that account 0 sends to itself.
async fn pay(chain: &Anvil, nonce: u64) -> B256 {
    let from = chain.keys()[0].address();
    chain
        .send(&TransactionRequest::default().from(from).to(from).nonce(nonce))
        .await
        .unwrap()
}

#[tokio::test]
async fn a_chain_ends_with_its_value() {
    let chain = on_demand().await;
    let url = chain.url().clone();
    assert_eq!(chain.keys().len(), 10);
    assert_eq!(chain.rpc().call::<Value>("eth_chainId", ()).await.unwrap(), "0x7a69");
    drop(chain);
    assert!(reqwest::get(url).await.unwrap_err().is_connect());
}

#[tokio::test]
async fn a_reorg_replaces_blocks_and_forgets_their_transactions() {
    let chain = on_demand().await;
    chain.mine(1).await.unwrap();
    let first = pay(&chain, 0).await;
    chain.mine(1).await.unwrap();
    let second = pay(&chain, 1).await;
    chain.mine(1).await.unwrap();
    let before = chain.block(3).await.unwrap().unwrap();
    assert!(chain.receipt(second).await.unwrap().unwrap().status());

    chain.reorg(2).await.unwrap();
    assert_eq!(chain.block_number().await.unwrap(), 3);
    assert_ne!(chain.block(3).await.unwrap().unwrap().header.hash, before.header.hash);
    for hash in [first, second] {
        assert_eq!(
            chain
                .rpc()
                .call::<Value>("eth_getTransactionByHash", (hash,))
                .await
                .unwrap(),
            Value::Null
        );
    }
    chain.mine(1).await.unwrap();
    assert!(chain.block(4).await.unwrap().unwrap().transactions.is_empty());
}

#[tokio::test]
async fn a_snapshot_can_be_used_once() {
    let chain = on_demand().await;
    let of = chain.keys()[0].address();
    let snapshot = chain.snapshot().await.unwrap();
    chain.set_balance(of, U256::from(7)).await.unwrap();
    chain.revert(snapshot).await.unwrap();
    assert_ne!(
        chain
            .rpc()
            .call::<U256>("eth_getBalance", (of, "latest"))
            .await
            .unwrap(),
        U256::from(7)
    );
    chain.revert(snapshot).await.unwrap_err();
}
