//! Transactions that revert on one fork and succeed on another.

use std::time::Duration;

use tidegate_fhevm::{
    reconcile::{self, Schedule},
    watch,
};
use tidegate_fhevm_stand_ins::{
    Behaviour,
    abi::Requests,
    chain::Mining,
    rpc_proxy::{Fault, Rule},
};
use tokio::time::timeout;

use crate::{
    scene::{Options, Scene},
    support::eventually,
};

const REVERTED: &str = "select count(*) from evm.tx where state = 'mined' and status = 0";

/// The transaction reverts in a block that is dropped, and succeeds in the next one.
async fn a_dropped_revert_does_not_count(confirmations: u64) {
    let mut scene = Scene::with(Options::of_chain(Mining::OnDemand, confirmations)).await;
    let _relay = scene.relay();
    let request = scene.request(2);
    let (id, hash) = scene.pooled(&request).await;
    if confirmations == 0 {
        // It counts at once, but for how long it takes to find out why it reverts.
        let calls = Rule::new("eth_call", Fault::Delay(Duration::from_secs(20)));
        scene.proxy.add(calls.containing(alloy::hex::encode(&request.calldata[..4])));
    }
    // Offers more than the wallet, so it comes first in the block.
    let decryption = scene.network.gateway.decryption;
    scene.switch(decryption, &Requests::pauseCall {}).await;
    eventually("the revert is noted", || async { scene.count(REVERTED).await == 1 }).await;

    // The pause is dropped, too.
    scene.network.chain.reorg(1).await.unwrap();
    scene.in_pool(hash).await;
    scene.proxy.clear();

    eventually("it is answered", || async {
        scene.network.chain.mine(1).await.unwrap();
        ["completed", "failure"].contains(&scene.database.status(id).await.as_str())
    })
    .await;
    scene.check_result(&request, id).await;
    scene.check_chain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revert_in_a_dropped_block_does_not_end_its_request_without_confirmations() {
    a_dropped_revert_does_not_count(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revert_in_a_dropped_block_does_not_end_its_request_with_three_confirmations() {
    a_dropped_revert_does_not_count(3).await;
}

/// The transaction succeeds in a block that is dropped after its receipt was noted, and reverts in the next one.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_ends_whose_transaction_reverts_after_a_reorganisation() {
    let mut scene = Scene::with(Options::of_chain(Mining::OnDemand, 0)).await;
    for node in scene.network.kms.nodes() {
        node.behave(Behaviour { silent: true, ..Behaviour::default() });
    }
    let _relay = scene.relay();
    let (id, hash) = scene.pooled(&scene.request(2)).await;
    scene.network.chain.mine(1).await.unwrap();
    eventually("its receipt is noted", || async { scene.database.status(id).await == "receipt_received" }).await;
    scene.network.chain.reorg(1).await.unwrap();
    scene.in_pool(hash).await;
    let decryption = scene.network.gateway.decryption;
    scene.switch(decryption, &Requests::pauseCall {}).await;
    eventually("the revert is noted", || async { scene.count(REVERTED).await == 1 }).await;

    let chains = scene.chains().await;
    let responses = watch::responses(&scene.tidegate, &scene.config, &chains);
    let schedule = Schedule { after: Duration::ZERO, ..Schedule::default() };
    // It needs more confirmations; and a process is lost before it knows why the transaction reverts.
    let confirmations = Schedule { confirmations: 1, ..schedule };
    reconcile::once(&responses, &confirmations).await.unwrap();
    scene.proxy.add(Rule::new("eth_call", Fault::Delay(Duration::from_secs(20))));
    timeout(Duration::from_millis(500), reconcile::once(&responses, &schedule)).await.unwrap_err();
    assert_eq!(scene.database.status(id).await, "receipt_received");
    scene.proxy.clear();
    let transitions = "select transition_no::bigint from tidegate.request";
    let before = scene.count(transitions).await;

    // Two at once, and once more.
    let both = tokio::join!(reconcile::once(&responses, &schedule), reconcile::once(&responses, &schedule));
    assert_eq!((both.0.unwrap(), both.1.unwrap()), (0, 0));
    assert_eq!(scene.label(id).await, "protocol_paused");
    reconcile::once(&responses, &schedule).await.unwrap();

    assert_eq!(scene.label(id).await, "protocol_paused");
    assert_eq!(scene.count(transitions).await, before + 1);
    scene.check_chain().await;
}
