//! Which transactions wait, and which are thrown out.

use alloy::{
    primitives::{Address, Bytes, U256, address, bytes},
    rpc::types::TransactionRequest,
};

use super::{GWEI, knows, on_demand, pay, sent, signed};

#[tokio::test]
async fn a_nonce_too_high_waits_for_the_gap_to_be_filled() {
    let chain = on_demand(31337).await;
    let later = pay(&chain, 1..2).await[0];
    chain.mine(1).await.unwrap();
    assert!(knows(&chain, later).await && chain.receipt(later).await.unwrap().is_none());
    pay(&chain, 0..1).await;
    chain.mine(1).await.unwrap();
    assert!(chain.receipt(later).await.unwrap().is_some());
}

#[tokio::test]
async fn a_transaction_that_is_dropped_takes_the_later_ones_with_it() {
    let chain = on_demand(31337).await;
    let hashes = pay(&chain, 0..3).await;
    chain.drop_transaction(hashes[1]).await.unwrap();
    assert!(knows(&chain, hashes[0]).await);
    assert!(!knows(&chain, hashes[1]).await && !knows(&chain, hashes[2]).await);
}

#[tokio::test]
async fn a_replaced_transaction_keeps_its_successors() {
    let chain = on_demand(31337).await;
    let hashes = pay(&chain, 0..3).await;
    let one_wei_more = signed(&chain, 0, |transaction| transaction.max_fee_per_gas += 1);
    let replaced = sent(&chain, &one_wei_more).await;
    chain.mine(1).await.unwrap();
    for hash in [replaced, hashes[1], hashes[2]] {
        assert!(chain.receipt(hash).await.unwrap().is_some());
    }
    assert!(!knows(&chain, hashes[0]).await);
}

#[tokio::test]
async fn a_pool_takes_as_many_transactions_of_an_account_as_come() {
    let chain = on_demand(31337).await;
    let hashes = pay(&chain, 0..1200).await;
    chain.mine(1).await.unwrap();
    assert_eq!(chain.block(1).await.unwrap().unwrap().transactions.len(), hashes.len());
}

#[tokio::test]
async fn what_cannot_be_paid_any_more_is_thrown_out_with_the_next_block() {
    let chain = on_demand(31337).await;
    let first = pay(&chain, 0..1).await[0];
    chain.set_balance(chain.keys()[0].address(), U256::from(1)).await.unwrap();
    chain.mine(1).await.unwrap();
    assert!(!knows(&chain, first).await);

    let chain = on_demand(31337).await;
    let hashes = pay(&chain, 0..2).await;
    chain.set_next_base_fee(20 * GWEI).await.unwrap();
    chain.mine(1).await.unwrap();
    assert!(!knows(&chain, hashes[0]).await && !knows(&chain, hashes[1]).await, "its successors, too");
}

#[tokio::test]
async fn a_transaction_with_too_little_gas_for_its_input_vanishes() {
    let chain = on_demand(31337).await;
    let raw = signed(&chain, 0, |transaction| transaction.input = Bytes::from(vec![7; 100]));
    let hash = sent(&chain, &raw).await;
    chain.mine(1).await.unwrap();
    assert!(!knows(&chain, hash).await);
}

#[tokio::test]
async fn each_transaction_has_to_be_payable_and_their_sum_not() {
    let chain = on_demand(31337).await;
    let of_one = U256::from(21_000 * 10 * GWEI);
    chain.set_balance(chain.keys()[0].address(), of_one).await.unwrap();
    assert_eq!(pay(&chain, 0..3).await.len(), 3);
}

#[tokio::test]
async fn blooms_are_filled() {
    // Emits a log with the topic 1.
    const EMITS: Address = address!("00000000000000000000000000000000000000aa");
    let chain = on_demand(31337).await;
    chain.set_code(EMITS, bytes!("5f355f52600160205fa100")).await.unwrap();
    let call = TransactionRequest::default().from(chain.keys()[0].address()).to(EMITS);
    chain.send(&call).await.unwrap();
    chain.mine(1).await.unwrap();
    let bloom = chain.block(1).await.unwrap().unwrap().header.logs_bloom;
    assert!(bloom.contains_input(alloy::primitives::BloomInput::Raw(EMITS.as_slice())));
}
