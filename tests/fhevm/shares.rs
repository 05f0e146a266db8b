//! How many shares complete a user decryption, and which.

use std::{
    collections::HashSet,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use alloy::{
    primitives::{Bytes, U256},
    signers::local::PrivateKeySigner,
};
use serde_json::{Value, json};
use tidegate_fhevm::request::Family;
use tidegate_fhevm_stand_ins::{
    Behaviour,
    abi::{Decryption, ProtocolConfig},
    deploy::Operator,
    gateway::first_context,
    network::NetworkOptions,
    user::Permit,
};

use crate::{
    scene::{Options, Scene, handle},
    support::{campaign, eventually},
};

async fn thirteen_nodes() -> Scene {
    Scene::with(Options {
        network: NetworkOptions {
            kms: 13,
            public_threshold: 7,
            user_threshold: 9,
            ..NetworkOptions::default()
        },
        ..Options::default()
    })
    .await
}

/// The nodes of a result's shares, which are in the order of their indexes.
fn nodes(result: &Value) -> HashSet<String> {
    let shares = result["result"].as_array().unwrap();
    let index = |share: &Value| share["index"].as_str().unwrap().parse::<u64>().unwrap();
    assert!(shares.is_sorted_by_key(index));
    shares
        .iter()
        .map(|share| share["signature"].as_str().unwrap().to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn nine_of_thirteen_complete_a_request_whatever_the_others_do() {
    let mut scene = thirteen_nodes().await;
    scene
        .switch(
            scene.network.gateway.decryption,
            &Decryption::setRepeatsCall { allowed: true },
        )
        .await;
    for (number, node) in scene.network.kms.nodes().iter().enumerate() {
        node.behave(Behaviour {
            delay: Duration::from_millis(100 * (number as u64 % 4)),
            silent: number % 6 == 5,
            repeats: u32::from(number % 3 == 0) * 2,
        });
    }
    let _relay = scene.relay();
    let requests: Vec<_> = (0..campaign(4, 40))
        .map(|number| scene.request(5 * number + 3 + number % 2))
        .collect();
    let mut ids = Vec::new();
    for request in &requests {
        ids.push(scene.submit(request).await);
    }
    for (request, id) in requests.iter().zip(ids) {
        scene.check_result(request, id).await;
        assert_eq!(nodes(&scene.result(id).await).len(), 9);
    }
    scene.check_chain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_kms_context_in_the_extra_data_has_a_threshold_of_its_own() {
    let scene = thirteen_nodes().await;
    let (host, contracts) = (&scene.network.hosts[0].0, scene.network.hosts[0].1);
    let mut operator = Operator::new(host.rpc()).await.unwrap();
    let set = ProtocolConfig::setUserThresholdCall {
        contextId: first_context(),
        threshold: U256::from(11),
    };
    operator.send(contracts.protocol_config, &set).await.unwrap();
    operator.mined().await.unwrap();
    let _relay = scene.relay();

    let id = scene
        .submit_body(Family::UserDecrypt, &in_context(&scene, first_context()))
        .await;

    eventually("the threshold is set", || async {
        scene
            .count("select max(response_threshold) from tidegate.request")
            .await
            == 11
    })
    .await;
    assert_eq!(nodes(&scene.result(id).await).len(), 11);
}

/// A user decryption whose extra data names a context.
fn in_context(scene: &Scene, context: U256) -> Value {
    let (chain, user) = (
        scene.network.hosts[0].0.chain_id(),
        PrivateKeySigner::from_slice(&[9; 32]).unwrap(),
    );
    let contract = alloy::primitives::Address::repeat_byte(0xc0);
    let permit = Permit {
        public_key: Bytes::from(vec![7; 32]),
        contracts: vec![contract],
        start: SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() - 60,
        days: 1,
        extra_data: [&[1][..], &context.to_be_bytes::<32>()].concat().into(),
    };
    let signature = permit.sign(&user, chain, scene.network.gateway.decryption).unwrap();
    json!({
        "handleContractPairs": [{"handle": handle(chain, 3), "contractAddress": contract}],
        "requestValidity": {"startTimestamp": permit.start.to_string(), "durationDays": "1"},
        "contractsChainId": chain.to_string(), "contractAddresses": [contract], "userAddress": user.address(),
        "signature": alloy::hex::encode(signature), "publicKey": alloy::hex::encode(&permit.public_key),
        "extraData": permit.extra_data,
    })
}
