//! Wallets that run dry.

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
    let call = TransactionRequest::default()
        .to(scene.network.gateway.token)
        .input(balance.into());
    let value: U256 = scene
        .network
        .chain
        .rpc()
        .call("eth_call", (call, "latest"))
        .await
        .unwrap();
    scene
        .switch(scene.network.gateway.token, &FeeToken::burnCall { account, value })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_wallets_take_over_from_one_without_tokens_or_gas_and_it_is_used_again_with_funds() {
    let mut scene = Scene::with(Options {
        wallets: 3,
        ..Options::default()
    })
    .await;
    let wallets = scene.wallets.clone();
    let _relay = scene.relay();

    // One has no tokens, one no gas.
    burn(&mut scene, wallets[0]).await;
    scene.network.chain.set_balance(wallets[1], U256::ZERO).await.unwrap();
    for number in [0, 2, 3] {
        let request = scene.request(number);
        let id = scene.submit(&request).await;
        scene.check_result(&request, id).await;
    }
    let used = "select count(distinct wallet) from evm.tx";
    assert_eq!(scene.count(used).await, 1);

    // None has tokens.
    burn(&mut scene, wallets[2]).await;
    scene
        .network
        .chain
        .set_balance(wallets[1], U256::from(10).pow(U256::from(21)))
        .await
        .unwrap();
    burn(&mut scene, wallets[1]).await;

    // All are without funds: requests wait, until there are some.
    let unfunded = "select count(*) from evm.wallet where unfunded_cause is not null";
    eventually("no wallet takes orders", || async { scene.count(unfunded).await == 3 }).await;
    let request = scene.request(5);
    let held = scene.submit(&request).await;
    let in_flight = "select count(*) from tidegate.request where req_status = 'tx_in_flight'";
    eventually("it is held", || async { scene.count(in_flight).await == 1 }).await;
    scene
        .network
        .gateway
        .fund(&mut scene.network.operator, wallets[0], 100_000)
        .await
        .unwrap();
    scene.check_result(&request, held).await;
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
    let forbid = FeeToken::setAllowanceCall {
        owner: wallet,
        spender: scene.network.gateway.payment,
        value: U256::ZERO,
    };
    scene.switch(scene.network.gateway.token, &forbid).await;

    let id = scene.submit(&scene.request(5)).await;

    assert_eq!(scene.label(id).await, "insufficient_allowance");
    assert_eq!(scene.count("select count(*) from evm.tx").await, 1);
}
