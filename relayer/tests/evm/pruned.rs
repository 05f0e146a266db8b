//! A check against a node that has no old states.

use std::ops::RangeInclusive;

use tidegate_evm::checker::{self, CheckError, Expected, Report};
use tidegate_fhevm_stand_ins::{
    chain::Mining,
    rpc_proxy::{Fault, Rule},
};

use super::scene::{Scene, outcomes};

async fn check(scene: &Scene, blocks: RangeInclusive<u64>) -> Result<Report, CheckError> {
    let expected = Expected {
        wallets: scene.store().expected(scene.anvil.chain_id()).await.unwrap(),
        requests: Vec::new(),
        at_rest: true,
    };
    checker::check(&scene.chain, &expected, blocks).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_from_the_adoption_on_needs_no_old_state() {
    let scene = Scene::new(Mining::OnDemand).await;
    scene.anvil.mine(3).await.unwrap();
    for _ in 0..2 {
        let sends = scene.begin(&scene.orders(2).await).await;
        scene.anvil.mine(1).await.unwrap();
        outcomes(sends).await;
    }
    scene.proxy.add(Rule::new(
        "eth_getTransactionCount",
        Fault::Refuse(-32602, "BlockOutOfRangeError: block height is 6 but requested was 3"),
    ));
    for from in [0, 1, 4] {
        let report = check(&scene, from..=5).await.unwrap();
        // The check gets no requests, so the calls belong to none.
        let wallet = &report.wallets[0];
        assert_eq!((wallet.first, wallet.mined, wallet.open), (0, 4, 0), "{report}");
    }
    let error = check(&scene, 5..=5).await.unwrap_err().to_string();
    assert!(error.starts_with("the state of block 4 is not there ("), "{error}");
    assert!(error.contains("check against an archive node, or from a block"), "{error}");
    scene.proxy.clear();
    let report = check(&scene, 5..=5).await.unwrap();
    assert_eq!((report.wallets[0].first, report.wallets[0].mined), (2, 2), "{report}");
}
