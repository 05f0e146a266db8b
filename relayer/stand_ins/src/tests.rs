mod reverts;

use std::path::Path;
use std::time::Duration;

use alloy::primitives::{Address, B256, Bytes, U256, address, hex};
use alloy::rpc::types::{Log, TransactionReceipt};
use alloy::signers::local::PrivateKeySigner;
use alloy::sol_types::{SolCall, SolEvent};
use serde_json::json;

use crate::Behaviour;
use crate::abi::{
    ContractsInfo, CtHandleContractPair, Decryption, InputVerification, PublicDecryptVerification, RequestValidity,
};
use crate::coprocessor::{EUINT64, handles};
use crate::host;
use crate::kms::{clear_value, domain, share};
use crate::network::{Network, NetworkOptions};
use crate::rpc::Rpc;
use crate::user::Permit;

const CONTRACT: Address = address!("00000000000000000000000000000000000c0de5");
const HOST: u64 = 31337;

#[test]
fn a_relative_build_directory_is_at_the_root() {
    let target = |directory: &str| crate::target_at(Some(directory.into()));
    assert!(target("Cargo.lock").is_file());
    assert_eq!(target("/elsewhere"), Path::new("/elsewhere"));
}

async fn network() -> (Network, Rpc, Address) {
    let mut network = Network::start(&NetworkOptions::default()).await.unwrap();
    let rpc = network.chain.rpc().clone();
    let sender = network.chain.keys()[0].address();
    network.gateway.fund(&mut network.operator, sender, 100).await.unwrap();
    (network, rpc, sender)
}

fn handle(number: u8, fhe_type: u8) -> B256 {
    handles(&vec![number].into(), host::acl(), U256::from(HOST), &[fhe_type])[0]
}

/// Sends a call, and answers its receipt.
async fn send(rpc: &Rpc, from: Address, to: Address, call: &impl SolCall) -> TransactionReceipt {
    let input = Bytes::from(call.abi_encode());
    let transaction = json!({"from": from, "to": to, "input": input, "gas": "0x400000"});
    let hash: B256 = rpc.call("eth_sendTransaction", [transaction]).await.unwrap();
    rpc.mined(hash).await.unwrap()
}

fn events<E: SolEvent>(logs: &[Log]) -> Vec<E> {
    logs.iter().filter_map(|log| log.log_decode::<E>().ok()).map(|log| log.inner.data).collect()
}

/// Waits until an event has been emitted so many times.
async fn wait_for<E: SolEvent>(rpc: &Rpc, from: Address, count: usize) -> Vec<E> {
    let filter = json!({"fromBlock": "0x0", "address": from, "topics": [E::SIGNATURE_HASH]});
    let found = async {
        loop {
            let found = events(&rpc.call::<Vec<Log>>("eth_getLogs", [&filter]).await.unwrap());
            if found.len() >= count {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), found).await.expect(E::SIGNATURE)
}

fn proof(user: Address) -> InputVerification::verifyProofRequestCall {
    InputVerification::verifyProofRequestCall {
        contractChainId: U256::from(HOST),
        contractAddress: CONTRACT,
        userAddress: user,
        ciphertextWithZKProof: vec![7; 100].into(),
        extraData: vec![0].into(),
    }
}

fn public(handles: Vec<B256>) -> Decryption::publicDecryptionRequestCall {
    Decryption::publicDecryptionRequestCall { ctHandles: handles, extraData: vec![0].into() }
}

/// A valid request of a user.
async fn user_request(network: &Network, rpc: &Rpc, user: &PrivateKeySigner) -> Decryption::userDecryptionRequestCall {
    let block: alloy::rpc::types::Block = rpc.call("eth_getBlockByNumber", ("latest", false)).await.unwrap();
    let permit = Permit {
        public_key: vec![9; 800].into(),
        contracts: vec![CONTRACT],
        start: block.header.timestamp,
        days: 1,
        extra_data: vec![0].into(),
    };
    Decryption::userDecryptionRequestCall {
        ctHandleContractPairs: vec![CtHandleContractPair { ctHandle: handle(1, EUINT64), contractAddress: CONTRACT }],
        requestValidity: RequestValidity { startTimestamp: U256::from(permit.start), durationDays: U256::from(1) },
        contractsInfo: ContractsInfo { chainId: U256::from(HOST), addresses: vec![CONTRACT] },
        userAddress: user.address(),
        publicKey: permit.public_key.clone(),
        signature: permit.sign(user, HOST, network.gateway.decryption).unwrap(),
        extraData: permit.extra_data,
    }
}

#[tokio::test]
async fn a_proof_is_accepted_or_rejected() {
    let (network, rpc, sender) = network().await;
    let at = network.gateway.input_verification;
    let [good, bad] = [1, 2].map(Address::repeat_byte);
    network.coprocessor.reject(bad);
    let receipt = send(&rpc, sender, at, &proof(good)).await;
    let [requested] = &events::<InputVerification::VerifyProofRequest>(receipt.logs())[..] else {
        panic!("{receipt:?}")
    };
    assert_eq!(requested.zkProofId, U256::from(1));
    send(&rpc, sender, at, &proof(bad)).await;

    let verified = wait_for::<InputVerification::VerifyProofResponse>(&rpc, at, 1).await;
    let expected = handles(&vec![7; 100].into(), network.hosts[0].1.acl, U256::from(HOST), &[EUINT64]);
    assert_eq!(verified[0].ctHandles, expected);
    assert_eq!(expected[0][22..], hex!("0000000000007a690500"));
    assert_eq!(verified[0].signatures.len(), 1);
    let rejected = wait_for::<InputVerification::RejectProofResponse>(&rpc, at, 1).await;
    assert_eq!(rejected[0].zkProofId, U256::from(2));
}

#[tokio::test]
async fn a_public_decryption_is_answered_when_enough_nodes_agree() {
    let (mut network, rpc, sender) = network().await;
    let at = network.gateway.decryption;
    network.kms.nodes()[0].behave(Behaviour { silent: true, ..Behaviour::default() });
    network.kms.nodes()[1].behave(Behaviour { silent: true, ..Behaviour::default() });
    // The nodes read either layout.
    let layouts = Decryption::setLayoutsCall { materials: true, handles_: false };
    network.operator.send(at, &layouts).await.unwrap();
    network.operator.mined().await.unwrap();
    let asked = vec![handle(1, 5), handle(2, 0)];
    assert!(send(&rpc, sender, at, &public(asked.clone())).await.status());
    let calls = json!([{"fromBlock": "0x0", "address": at}]);
    let before = async {
        while rpc.call::<Vec<Log>>("eth_getLogs", &calls).await.unwrap().len() < 3 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), before).await.unwrap();
    let logs: Vec<Log> = rpc.call("eth_getLogs", &calls).await.unwrap();
    assert!(events::<Decryption::PublicDecryptionResponse>(&logs).is_empty(), "two of three nodes are not enough");

    network.kms.nodes()[0].behave(Behaviour::default());
    let answer = wait_for::<Decryption::PublicDecryptionResponse>(&rpc, at, 1).await.remove(0);
    assert_eq!(answer.decryptionId, (U256::from(1) << 248) + U256::from(1));
    assert_eq!(answer.decryptedResult.len(), 64);
    assert_eq!(U256::from_be_slice(&answer.decryptedResult[..32]), clear_value(asked[0]));
    assert!(answer.decryptedResult[32..63].iter().all(|byte| *byte == 0) && answer.decryptedResult[63] < 2);
    assert_eq!(answer.extraData, Bytes::new(), "0x00 is answered over no extra data");
    let signed = PublicDecryptVerification {
        ctHandles: asked,
        decryptedResult: answer.decryptedResult,
        extraData: answer.extraData,
    };
    let digest = alloy::sol_types::SolStruct::eip712_signing_hash(&signed, &domain("Decryption", 54321, at));
    let by = |signature: &Bytes| {
        alloy::primitives::Signature::from_raw(signature).unwrap().recover_address_from_prehash(&digest).unwrap()
    };
    let mut signers: Vec<Address> = answer.signatures.iter().map(by).collect();
    let mut expected = network.kms.signers();
    expected.remove(1);
    signers.sort();
    expected.sort();
    assert_eq!(signers, expected);
}

#[tokio::test]
async fn each_node_sends_its_share_of_a_user_decryption() {
    let (network, rpc, sender) = network().await;
    let at = network.gateway.decryption;
    let user = PrivateKeySigner::random();
    network.kms.nodes()[0].behave(Behaviour { repeats: 2, ..Behaviour::default() });
    network.kms.nodes()[3].behave(Behaviour { delay: Duration::from_millis(500), ..Behaviour::default() });
    let call = user_request(&network, &rpc, &user).await;
    assert!(send(&rpc, sender, at, &call).await.status());
    let shares = wait_for::<Decryption::UserDecryptionResponse>(&rpc, at, 4).await;
    assert_eq!(shares[0].decryptionId, (U256::from(1) << 249) + U256::from(1));
    assert_eq!(shares.iter().map(|share| share.indexShare.to::<u64>()).collect::<Vec<_>>(), [0, 1, 2, 3]);
    let late = share(network.kms.nodes()[3].address(), &[handle(1, EUINT64)], &call.publicKey);
    assert_eq!(shares[3].userDecryptedShare, late);
    wait_for::<Decryption::UserDecryptionResponseThresholdReached>(&rpc, at, 1).await;
}

#[tokio::test]
async fn a_request_that_is_mined_again_is_answered_again() {
    let (network, rpc, sender) = network().await;
    let at = network.gateway.decryption;
    let receipt = send(&rpc, sender, at, &public(vec![handle(1, 5)])).await;
    wait_for::<Decryption::PublicDecryptionResponse>(&rpc, at, 1).await;
    network.chain.reorg_from(receipt.block_number.unwrap()).await.unwrap();
    assert_eq!(rpc.call::<Vec<Log>>("eth_getLogs", [json!({"fromBlock": "0x0", "address": at})]).await.unwrap(), []);
    send(&rpc, sender, at, &public(vec![handle(2, 5)])).await;
    let answers = wait_for::<Decryption::PublicDecryptionResponse>(&rpc, at, 1).await;
    assert_eq!(answers[0].decryptionId, (U256::from(1) << 248) + U256::from(1));
    assert_eq!(U256::from_be_slice(&answers[0].decryptedResult), clear_value(handle(2, 5)));
}
