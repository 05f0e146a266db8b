//! How many shares complete a user decryption, and which.

use std::{
    collections::HashSet,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use alloy::{
    primitives::{Bytes, U256},
    rpc::types::{Filter, Log},
    signers::local::PrivateKeySigner,
    sol_types::SolEvent,
};
use serde_json::{Value, json};
use tidegate_fhevm::request::Family;
use tidegate_fhevm_stand_ins::{
    Behaviour,
    abi::{Decryption, ProtocolConfig},
    chain::Mining,
    deploy::Operator,
    gateway::first_context,
    network::NetworkOptions,
    user::Permit,
};

use crate::{
    scene::{Options, Scene, handle},
    support::{campaign, eventually},
};

async fn thirteen_nodes(mining: Mining) -> Scene {
    let usual = Options::of_chain(mining, 0);
    Scene::with(Options {
        network: NetworkOptions { kms: 13, public_threshold: 7, user_threshold: 9, ..usual.network },
        ..usual
    })
    .await
}

/// The nodes of a result's shares, which are in the order of their indexes.
fn nodes(result: &Value) -> HashSet<String> {
    let shares = result["result"].as_array().unwrap();
    let index = |share: &Value| share["index"].as_str().unwrap().parse::<u64>().unwrap();
    assert!(shares.is_sorted_by_key(index));
    shares.iter().map(|share| share["signature"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn nine_of_thirteen_complete_a_request_whatever_the_others_do() {
    let mut scene = thirteen_nodes(Mining::Mixed).await;
    scene.switch(scene.network.gateway.decryption, &Decryption::setRepeatsCall { allowed: true }).await;
    for (number, node) in scene.network.kms.nodes().iter().enumerate() {
        node.behave(Behaviour {
            delay: Duration::from_millis(100 * (number as u64 % 4)),
            silent: number % 6 == 5,
            repeats: u32::from(number % 3 == 0) * 2,
        });
    }
    let _relay = scene.relay();
    let requests: Vec<_> = (0..campaign(4, 40)).map(|number| scene.request(5 * number + 3 + number % 2)).collect();
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
    let scene = thirteen_nodes(Mining::Mixed).await;
    let (host, contracts) = (&scene.network.hosts[0].0, scene.network.hosts[0].1);
    let mut operator = Operator::new(host.rpc()).await.unwrap();
    let set = ProtocolConfig::setUserThresholdCall { contextId: first_context(), threshold: U256::from(11) };
    operator.send(contracts.protocol_config, &set).await.unwrap();
    operator.mined().await.unwrap();
    let _relay = scene.relay();

    let id = scene.submit_body(Family::UserDecrypt, &in_context(&scene, first_context())).await;

    eventually("the threshold is set", || async {
        scene.count("select max(response_threshold) from tidegate.request").await == 11
    })
    .await;
    assert_eq!(nodes(&scene.result(id).await).len(), 11);
}

/// Six nodes answer, some twice. Their shares are dropped, with their request or without; they answer again, and the
/// others later.
async fn dropped_shares_count_once(with_request: bool) {
    let mut scene = thirteen_nodes(Mining::OnDemand).await;
    let decryption = scene.network.gateway.decryption;
    scene.switch(decryption, &Decryption::setRepeatsCall { allowed: true }).await;
    let behave = |silent: fn(usize) -> bool| {
        for (number, node) in scene.network.kms.nodes().iter().enumerate() {
            node.behave(Behaviour {
                delay: Duration::from_millis(50 * (number as u64 % 3)),
                silent: silent(number),
                repeats: u32::from(number % 2 == 0),
            });
        }
    };
    behave(|number| number >= 6);
    let _relay = scene.relay();
    let body = in_context(&scene, first_context());
    let id = scene.submit_body(Family::UserDecrypt, &body).await;
    let shares = "select count(*) from tidegate.response_part";
    let mine_until_six = async |what| {
        eventually(what, || async {
            scene.mine_pool().await;
            logs(&scene).await.len() >= 9 && scene.count(shares).await == 6
        })
        .await;
    };
    mine_until_six("six nodes have answered").await;
    let first = match with_request {
        true => scene.count("select block_number from evm.tx").await.cast_unsigned(),
        false => logs(&scene).await[0].block_number.unwrap(),
    };
    scene.network.chain.reorg_from(first).await.unwrap();
    assert_eq!(logs(&scene).await, []);

    mine_until_six("they have answered again").await;
    assert_eq!(scene.database.status(id).await, "receipt_received");
    behave(|_| false);
    eventually("it is completed", || async {
        scene.mine_pool().await;
        scene.database.status(id).await == "completed"
    })
    .await;

    assert_eq!(nodes(&scene.result(id).await).len(), 9);
    let signers =
        sqlx::query_scalar::<_, String>("select jsonb_object_keys(r.response -> 'shares') from tidegate.request as r");
    let signers = signers.fetch_all(&scene.database.pool).await.unwrap();
    let kms: Vec<_> = scene.network.kms.signers().iter().map(ToString::to_string).collect();
    assert_eq!(signers.len(), 9);
    assert!(signers.iter().all(|signer| kms.contains(signer)), "{signers:?}");
    scene.check_chain().await;
}

/// The shares that the chain has.
async fn logs(scene: &Scene) -> Vec<Log> {
    let filter = Filter::new()
        .address(scene.network.gateway.decryption)
        .event_signature(Decryption::UserDecryptionResponse::SIGNATURE_HASH)
        .from_block(0);
    scene.network.chain.rpc().call("eth_getLogs", (filter,)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn shares_that_are_mined_again_count_once() {
    dropped_shares_count_once(false).await;
}

/// The request may get another id, and its receipt is noted already.
#[tokio::test(flavor = "multi_thread")]
async fn shares_that_are_mined_again_after_their_request_count_once() {
    dropped_shares_count_once(true).await;
}

/// A user decryption whose extra data names a context.
fn in_context(scene: &Scene, context: U256) -> Value {
    let (chain, user) = (scene.network.hosts[0].0.chain_id(), PrivateKeySigner::from_slice(&[9; 32]).unwrap());
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
