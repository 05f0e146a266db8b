use alloy::primitives::{Address, Bytes, U256, hex};
use alloy::signers::local::PrivateKeySigner;
use alloy::sol_types::SolCall as _;
use serde_json::{Value, json};

use super::{CONTRACT, HOST, handle, network, proof, public, send, user_request};
use crate::abi::{CiphertextCommits, GatewayConfig, Requests};
use crate::artefacts::tests::error_name;
use crate::coprocessor::handles;
use crate::host;
use crate::rpc::{NodeError, Rpc};

/// The name of the error that a call reverts with.
async fn revert(rpc: &Rpc, from: Address, to: Address, call: Vec<u8>) -> String {
    let input = Bytes::from(call);
    let answer = rpc.call::<Value>("eth_estimateGas", [json!({"from": from, "to": to, "input": input})]).await;
    let error = answer.expect_err("the call does not revert");
    let data = error.downcast_ref::<NodeError>().unwrap().revert_data().unwrap_or_default();
    error_name(&data).unwrap_or_else(|| hex::encode_prefixed(&data))
}

#[tokio::test]
async fn requests_revert_with_the_real_errors() {
    let (network, rpc, sender) = network().await;
    let (decryption, verification) = (network.gateway.decryption, network.gateway.input_verification);
    let user = PrivateKeySigner::random();
    let valid = user_request(&network, &rpc, &user).await;
    let foreign = handles(&vec![1].into(), host::acl(), U256::from(5), &[5])[0];
    let mut stranger = valid.clone();
    stranger.userAddress = Address::repeat_byte(1);
    let mut short = valid.clone();
    short.signature = vec![1; 64].into();
    let mut expired = valid.clone();
    expired.requestValidity.startTimestamp = U256::from(1);
    let mut early = valid.clone();
    early.requestValidity.startTimestamp += U256::from(1_000_000);
    let mut elsewhere = valid.clone();
    elsewhere.contractsInfo.addresses = vec![Address::repeat_byte(3)];
    let mut own = valid.clone();
    own.userAddress = CONTRACT;
    let mut context = public(vec![handle(1, 5)]);
    context.extraData = [&[1, 7][..], &[0; 31]].concat().into();
    let mut version = context.clone();
    version.extraData = vec![3].into();
    let mut chain = proof(sender);
    chain.contractChainId = U256::from(5);
    let poor = Address::repeat_byte(9);

    for (to, from, call, error) in [
        (verification, sender, chain.abi_encode(), "HostChainNotRegistered"),
        (verification, poor, proof(sender).abi_encode(), "ERC20InsufficientAllowance"),
        (decryption, sender, public(vec![]).abi_encode(), "EmptyCtHandles"),
        (decryption, sender, public(vec![foreign]).abi_encode(), "HostChainNotRegistered"),
        (decryption, sender, public(vec![handle(1, 1)]).abi_encode(), "UnsupportedFHEType"),
        (decryption, sender, public(vec![handle(1, 200)]).abi_encode(), "InvalidFHEType"),
        (decryption, sender, public(vec![handle(1, 8); 9]).abi_encode(), "MaxDecryptionRequestBitSizeExceeded"),
        (decryption, sender, context.abi_encode(), "InvalidKmsContext"),
        (decryption, sender, version.abi_encode(), "UnsupportedExtraDataVersion"),
        (decryption, sender, stranger.abi_encode(), "InvalidUserSignature"),
        (decryption, sender, short.abi_encode(), "ECDSAInvalidSignatureLength"),
        (decryption, sender, expired.abi_encode(), "UserDecryptionRequestExpired"),
        (decryption, sender, early.abi_encode(), "StartTimestampInFuture"),
        (decryption, sender, elsewhere.abi_encode(), "ContractNotInContractAddresses"),
        (decryption, sender, own.abi_encode(), "UserAddressInContractAddresses"),
    ] {
        assert_eq!(revert(&rpc, from, to, call).await, error);
    }
}

#[tokio::test]
async fn the_switches_make_requests_revert() {
    let (mut network, rpc, sender) = network().await;
    let (decryption, verification) = (network.gateway.decryption, network.gateway.input_verification);
    let set = CiphertextCommits::setAllMissingCall { missing_: true };
    network.operator.send(network.gateway.commits, &set).await.unwrap();
    let set = GatewayConfig::setHostChainCall { chainId: U256::from(HOST), registered: true, disabled_: true };
    network.operator.send(network.gateway.config, &set).await.unwrap();
    network.operator.mined().await.unwrap();
    assert_eq!(revert(&rpc, sender, verification, proof(sender).abi_encode()).await, "HostChainDisabled");
    let set = GatewayConfig::setHostChainCall { chainId: U256::from(HOST), registered: true, disabled_: false };
    network.operator.send(network.gateway.config, &set).await.unwrap();
    network.operator.send(verification, &Requests::pauseCall {}).await.unwrap();
    network.operator.mined().await.unwrap();
    assert_eq!(revert(&rpc, sender, verification, proof(sender).abi_encode()).await, "EnforcedPause");
    let missing = public(vec![handle(1, 5)]).abi_encode();
    assert_eq!(revert(&rpc, sender, decryption, missing).await, "CiphertextMaterialNotFound");
}

#[tokio::test]
async fn a_fault_can_spare_estimates() {
    let (mut network, rpc, sender) = network().await;
    let at = network.gateway.input_verification;
    let fault = Requests::setFaultCall { revertData: vec![1, 2, 3, 4].into(), block_: U256::ZERO, mined: true };
    network.operator.send(at, &fault).await.unwrap();
    network.operator.mined().await.unwrap();
    let input = Bytes::from(proof(sender).abi_encode());
    rpc.call::<U256>("eth_estimateGas", [json!({"from": sender, "to": at, "input": input})]).await.unwrap();
    assert!(!send(&rpc, sender, at, &proof(sender)).await.status());

    let fault = Requests::setFaultCall { revertData: vec![1, 2, 3, 4].into(), block_: U256::ZERO, mined: false };
    network.operator.send(at, &fault).await.unwrap();
    network.operator.mined().await.unwrap();
    assert_eq!(revert(&rpc, sender, at, proof(sender).abi_encode()).await, "0x01020304");
}
