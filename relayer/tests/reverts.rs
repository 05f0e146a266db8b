//! What reverts of the gateway mean for the requests that meet them.

use alloy::{primitives::U256, sol_types::SolError};
use tidegate_fhevm::abi::reverts as errors;
use tidegate_fhevm_stand_ins::{
    abi::Requests,
    chain::Mining,
    rpc_proxy::{Fault, Rule},
};

use crate::{
    scene::{Options, Scene},
    support::eventually,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_revert_at_the_estimate_ends_a_request_with_its_label_and_takes_no_nonce() {
    let mut scene = Scene::new().await;
    let _relay = scene.relay();
    let (decryption, fault) = (scene.network.gateway.decryption, |data: Vec<u8>| Requests::setFaultCall {
        revertData: data.into(),
        block_: U256::ZERO,
        mined: false,
    });

    scene.switch(decryption, &Requests::pauseCall {}).await;
    let paused = scene.submit(&scene.request(2)).await;
    assert_eq!(scene.label(paused).await, "protocol_paused");
    scene.switch(decryption, &Requests::unpauseCall {}).await;

    let chain_id = U256::from(7);
    for (data, label) in [
        (errors::InvalidUserSignature { signature: vec![1].into() }.abi_encode(), "validation_failed"),
        (errors::HostChainDisabled { chainId: chain_id }.abi_encode(), "validation_failed"),
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
    let usual = Options::of_chain(Mining::OnDemand, 0);
    let mut scene = Scene::with(Options {
        // Only what was not sent is held.
        keys: vec![("HOLD_WHILE_PAUSED", "true".to_owned())],
        ..usual
    })
    .await;
    let _relay = scene.relay();
    let (request, _) = scene.pooled(&scene.request(2)).await;

    // Offers more than the wallet, so it comes first in the block.
    scene.switch(scene.network.gateway.decryption, &Requests::pauseCall {}).await;

    assert_eq!(scene.label(request).await, "protocol_paused");
    assert_eq!(scene.count("select count(*) from evm.tx where status = 0 and state = 'mined'").await, 1);
    assert_eq!(scene.count("select count(*) from evm.tx").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn material_that_the_gateway_has_not_yet_is_waited_for() {
    let mut scene = Scene::new().await;
    let _relay = scene.relay();
    let decryption = scene.network.gateway.decryption;
    let fault = Requests::setFaultCall {
        revertData: errors::CiphertextMaterialNotFound { ctHandle: alloy::primitives::B256::ZERO }.abi_encode().into(),
        block_: U256::ZERO,
        mined: false,
    };
    scene.switch(decryption, &fault).await;
    let request = scene.request(2);
    let id = scene.submit(&request).await;
    let estimates = scene.proxy.calls("eth_estimateGas");
    eventually("the estimate is repeated", || async { scene.proxy.calls("eth_estimateGas") > estimates + 2 }).await;

    scene.switch(decryption, &Requests::clearFaultCall {}).await;

    scene.check_result(&request, id).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_can_hold_requests_while_the_contracts_are_paused() {
    let mut scene =
        Scene::with(Options { keys: vec![("HOLD_WHILE_PAUSED", "true".to_owned())], ..Options::default() }).await;
    let _relay = scene.relay();
    let decryption = scene.network.gateway.decryption;
    scene.switch(decryption, &Requests::pauseCall {}).await;
    let request = scene.request(2);
    let held = scene.submit(&request).await;
    let late = scene.submit(&scene.request(7)).await;
    // Such attempts use none of the policy's.
    let waiting = "select count(*) from tidegate.request
                   where req_status = 'processing' and error ->> 'code' = 'label:protocol_paused'
                     and tx_unsent = tx_attempt";
    eventually("both wait", || async { scene.count(waiting).await == 2 }).await;

    let deadline = format!(
        "update tidegate.request set deadline_at = clock_timestamp() - interval '1 second' where id = '{late}';
         select tidegate.expire_by_deadline()"
    );
    scene.database.execute(&deadline).await;
    let ended = scene.ended(late).await;
    assert_eq!(ended.error.unwrap().code, "deadline_exceeded");
    assert_eq!(ended.last_error.unwrap().code, "label:protocol_paused");

    scene.switch(decryption, &Requests::unpauseCall {}).await;
    scene.check_result(&request, held).await;
    assert_eq!(scene.count("select count(*) from evm.tx").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_transaction_is_too_large_fails_and_its_wallet_goes_on() {
    let scene = Scene::new().await;
    let _relay = scene.relay();
    let (large, small) = (scene.request(0), scene.request(5));
    let ciphertext = large.body["ciphertextWithInputVerification"].as_str().unwrap();
    let refuse = Fault::Refuse(-32000, "oversized data: transaction size 131264, limit 131072");
    scene.proxy.add(Rule::new("eth_sendRawTransaction", refuse).containing(ciphertext));
    let is_refused = async |request| {
        let refused = scene.submit(request).await;
        let error = scene.ended(refused).await.error.unwrap();
        assert_eq!(error.code, "label:validation_failed");
        let details: serde_json::Value = serde_json::from_str(error.details.unwrap().get()).unwrap();
        assert_eq!(details[0]["field"], "ciphertextWithInputVerification");
    };
    // Longer than any Arbitrum chain takes: it gets no nonce.
    let mut longest = scene.request(0);
    longest.body["ciphertextWithInputVerification"] = "ab".repeat(95_000).into();
    is_refused(&longest).await;
    assert_eq!(scene.count("select count(*) from evm.tx").await, 0);
    is_refused(&large).await;

    let id = scene.submit(&small).await;
    scene.check_result(&small, id).await;
    scene.check_chain().await;
}
