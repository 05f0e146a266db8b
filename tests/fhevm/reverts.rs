//! What reverts of the gateway mean for the requests that meet them.

use alloy::{primitives::U256, sol_types::SolError};
use tidegate_fhevm::abi::reverts as errors;
use tidegate_fhevm_stand_ins::{
    abi::Requests,
    chain::{ChainOptions, Mining},
    network::NetworkOptions,
};

use crate::{
    scene::{Options, Scene},
    support::eventually,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_revert_at_the_estimate_ends_a_request_with_its_label_and_takes_no_nonce() {
    let mut scene = Scene::new().await;
    let _relay = scene.relay();
    let (decryption, fault) = (scene.network.gateway.decryption, |data: Vec<u8>| {
        Requests::setFaultCall {
            revertData: data.into(),
            block_: U256::ZERO,
            mined: false,
        }
    });

    scene.switch(decryption, &Requests::pauseCall {}).await;
    let paused = scene.submit(&scene.request(2)).await;
    assert_eq!(scene.label(paused).await, "protocol_paused");
    scene.switch(decryption, &Requests::unpauseCall {}).await;

    let chain_id = U256::from(7);
    for (data, label) in [
        (
            errors::InvalidUserSignature {
                signature: vec![1].into(),
            }
            .abi_encode(),
            "validation_failed",
        ),
        (
            errors::HostChainDisabled { chainId: chain_id }.abi_encode(),
            "validation_failed",
        ),
        (vec![0xde, 0xad, 0xbe, 0xef], "internal_server_error"),
        (Vec::new(), "internal_server_error"),
    ] {
        scene.switch(decryption, &fault(data)).await;
        let refused = scene.submit(&scene.request(3)).await;
        assert_eq!(scene.label(refused).await, label);
    }

    // A signature that the contract itself finds wrong.
    scene.switch(decryption, &Requests::clearFaultCall {}).await;
    let mut request = scene.request(8);
    request.body["signature"] = "1b".repeat(65).into();
    let forged = scene.submit(&request).await;
    assert_eq!(scene.label(forged).await, "validation_failed");
    let error = scene.ended(forged).await.error.unwrap();
    let details: serde_json::Value = serde_json::from_str(error.details.unwrap().get()).unwrap();
    assert_eq!(details[0]["field"], "signature");

    assert_eq!(scene.count("select count(*) from evm.tx").await, 0);
    assert_eq!(scene.count("select count(*) from fhevm.reference").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revert_in_a_block_ends_its_request_and_no_second_transaction_is_sent() {
    let mut scene = Scene::with(Options {
        network: NetworkOptions {
            gateway: ChainOptions {
                mining: Mining::OnDemand,
                ..NetworkOptions::default().gateway
            },
            ..NetworkOptions::default()
        },
        ..Options::default()
    })
    .await;
    let _relay = scene.relay();
    let request = scene.submit(&scene.request(2)).await;
    let sent = "select count(*) from evm.attempt where sent_at is not null";
    eventually("its transaction is in the pool", || async {
        scene.count(sent).await == 1
    })
    .await;

    // Offers more than the wallet, so it comes first in the block.
    scene
        .switch(scene.network.gateway.decryption, &Requests::pauseCall {})
        .await;

    assert_eq!(scene.label(request).await, "protocol_paused");
    assert_eq!(
        scene
            .count("select count(*) from evm.tx where status = 0 and state = 'mined'")
            .await,
        1
    );
    assert_eq!(scene.count("select count(*) from evm.tx").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn material_that_the_gateway_has_not_yet_is_waited_for() {
    let mut scene = Scene::new().await;
    let _relay = scene.relay();
    let decryption = scene.network.gateway.decryption;
    let fault = Requests::setFaultCall {
        revertData: errors::CiphertextMaterialNotFound {
            ctHandle: alloy::primitives::B256::ZERO,
        }
        .abi_encode()
        .into(),
        block_: U256::ZERO,
        mined: false,
    };
    scene.switch(decryption, &fault).await;
    let request = scene.request(2);
    let id = scene.submit(&request).await;
    let estimates = scene.proxy.calls("eth_estimateGas");
    eventually("the estimate is repeated", || async {
        scene.proxy.calls("eth_estimateGas") > estimates + 2
    })
    .await;

    scene.switch(decryption, &Requests::clearFaultCall {}).await;

    scene.check_result(&request, id).await;
}
