//! Wallets that run dry.

use std::time::{Duration, Instant};

use alloy::{
    primitives::{Address, Bytes, U256},
    rpc::types::TransactionRequest,
    sol_types::SolCall,
};
use tidegate_fhevm_stand_ins::abi::FeeToken;

use crate::{
    scene::{Options, Scene},
    support::eventually,
};

async fn burn(scene: &mut Scene, account: Address) {
    let balance = Bytes::from(FeeToken::balanceOfCall { account }.abi_encode());
    let call = TransactionRequest::default().to(scene.network.gateway.token).input(balance.into());
    let value: U256 = scene.network.chain.rpc().call("eth_call", (call, "latest")).await.unwrap();
    scene.switch(scene.network.gateway.token, &FeeToken::burnCall { account, value }).await;
}

/// Sets an account's gas money to a power of ten, or to nothing.
async fn gas(scene: &Scene, account: Address, power: u64) {
    let wei = if power == 0 { U256::ZERO } else { U256::from(10).pow(U256::from(power)) };
    scene.network.chain.set_balance(account, wei).await.unwrap();
}

async fn fund(scene: &mut Scene, account: Address, requests: u64) {
    let (gateway, operator) = (scene.network.gateway, &mut scene.network.operator);
    gateway.fund(operator, account, requests).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn other_wallets_take_over_from_one_without_tokens_or_gas_and_it_is_used_again_with_funds() {
    let mut scene = Scene::with(Options { wallets: 3, ..Options::default() }).await;
    let wallets = scene.wallets.clone();

    // One has no tokens, one no gas. What is signed for a wallet waits until it has gas, so its first look comes first.
    burn(&mut scene, wallets[0]).await;
    gas(&scene, wallets[1], 0).await;
    let _relay = scene.relay();
    let without_gas = "select count(*) from evm.wallet where unfunded_cause like 'gas%'";
    eventually("the wallet without gas takes no orders", || async { scene.count(without_gas).await == 1 }).await;
    for number in [0, 2, 3] {
        let request = scene.request(number);
        let id = scene.submit(&request).await;
        scene.check_result(&request, id).await;
    }
    let used = "select count(distinct wallet) from evm.tx";
    assert_eq!(scene.count(used).await, 1);

    // None has tokens: requests end at once, also those that find each wallet marked.
    burn(&mut scene, wallets[2]).await;
    gas(&scene, wallets[1], 21).await;
    burn(&mut scene, wallets[1]).await;
    for number in [5, 10] {
        let id = scene.submit(&scene.request(number)).await;
        assert_eq!(scene.label(id).await, "insufficient_balance");
    }
    let unfunded = "select count(*) from evm.wallet where unfunded_cause is not null";
    eventually("no wallet takes orders", || async { scene.count(unfunded).await == 3 }).await;

    // One has tokens again, and no gas: requests wait until it has.
    gas(&scene, wallets[0], 0).await;
    fund(&mut scene, wallets[0], 100_000).await;
    let request = scene.request(15);
    let estimates = scene.proxy.calls("eth_estimateGas");
    let held = scene.submit(&request).await;
    let in_flight = "select count(*) from tidegate.request where req_status = 'tx_in_flight'";
    eventually("it is held", || async {
        scene.proxy.calls("eth_estimateGas") > estimates && scene.count(in_flight).await == 1
    })
    .await;
    gas(&scene, wallets[0], 21).await;
    let refunded = Instant::now();
    scene.check_result(&request, held).await;
    let took = refunded.elapsed();
    println!("a wallet is used {took:?} after it has funds again");
    assert!(took < Duration::from_secs(30), "{took:?}");
    assert_eq!(scene.count(used).await, 2);
    scene.check_chain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_no_wallet_can_pay_for_ends_with_the_label_of_what_is_lacking() {
    let mut scene = Scene::new().await;
    let wallet = scene.wallets[0];
    let _relay = scene.relay();
    // The wallet's funds were looked at, and are not for another 15 seconds.
    let request = scene.request(0);
    let paid = scene.submit(&request).await;
    scene.check_result(&request, paid).await;
    let forbid =
        FeeToken::setAllowanceCall { owner: wallet, spender: scene.network.gateway.payment, value: U256::ZERO };
    scene.switch(scene.network.gateway.token, &forbid).await;

    let id = scene.submit(&scene.request(5)).await;

    assert_eq!(scene.label(id).await, "insufficient_allowance");
    // The reserve is for what the queues let through until the next look.
    let rate = "select sum(q.per_seconds)::bigint from tidegate.queue as q
                where q.name = any(select k.name from tidegate.kind as k where k.name like 'fhevm%')";
    let reserved = tidegate_fhevm::work::funds(&scene.config).rate;
    assert_eq!(scene.count(rate).await, i64::try_from(reserved).unwrap());
}
