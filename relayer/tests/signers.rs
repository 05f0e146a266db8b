//! Answers with signatures of nodes that do not count.

use std::{collections::HashSet, sync::Arc, time::Duration};

use alloy::{
    eips::BlockNumberOrTag,
    primitives::{Address, U256},
    rpc::types::Filter,
    sol_types::{SolEvent, SolValue},
};
use tidegate::request::Status;
use tidegate_fhevm::{
    abi::gateway::Decryption::PublicDecryptionResponse,
    reconcile,
    responses::{Responses, SignerSets},
};
use tidegate_fhevm_stand_ins::{Behaviour, gateway::first_context, network::NetworkOptions};
use tidegate_node::Exporter;

use crate::{
    scene::{Options, Scene},
    support::eventually,
};

/// Makes the relayer believe a contract that lists these signers, rather than the one that the others believe.
async fn lists(scene: &mut Scene, kms: &[Address], coprocessors: &[Address]) {
    let chains: Vec<U256> = Vec::new();
    let arguments = (kms.to_vec(), coprocessors.to_vec(), chains, first_context());
    let operator = &mut scene.network.operator;
    let listing = operator.deploy("GatewayConfig", &arguments.abi_encode_params()).await;
    operator.mined().await.unwrap();
    Arc::get_mut(&mut scene.config).unwrap().gateway.gateway_config = Some(listing.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_with_a_foreign_signature_is_not_taken() {
    let mut scene = Scene::with(Options {
        network: NetworkOptions { public_threshold: 4, ..NetworkOptions::default() },
        ..Options::default()
    })
    .await;
    let exporter = Exporter::new();
    assert!(exporter.install(), "only this test of its program looks at figures");
    let nodes = scene.network.kms.signers();
    lists(&mut scene, &nodes[1..], &[Address::repeat_byte(7)]).await;
    for node in scene.network.kms.nodes() {
        // The receipt comes first.
        node.behave(Behaviour { delay: Duration::from_secs(2), ..Behaviour::default() });
    }
    let _relay = scene.relay();
    let (proof, public, user) = (scene.request(0), scene.request(2), scene.request(3));
    let (of_proof, of_public) = (scene.submit(&proof).await, scene.submit(&public).await);

    // A value has the signatures of all four nodes, a proof that of a coprocessor that is not listed.
    let answered = Filter::new()
        .address(scene.network.gateway.decryption)
        .event_signature(PublicDecryptionResponse::SIGNATURE_HASH)
        .from_block(BlockNumberOrTag::Earliest);
    let chains = scene.chains().await;
    eventually("the value is on the chain", || async { !chains.gateway.logs(&answered).await.unwrap().is_empty() })
        .await;
    let head = i64::try_from(scene.network.chain.block_number().await.unwrap()).unwrap();

    // Three of the four shares are of nodes that are listed.
    let of_user = scene.submit(&user).await;
    let ended = scene.ended(of_user).await;
    assert_eq!(ended.status, Status::Completed, "{:?}", ended.error);
    let shares: serde_json::Value = ended.response().unwrap();
    let signers: HashSet<Address> =
        shares["shares"].as_object().unwrap().keys().map(|signer| signer.parse().unwrap()).collect();
    assert_eq!(signers, nodes[1..].iter().copied().collect());

    eventually("the watcher has read the answers", || async {
        scene.count("select coalesce(max(number), 0) from evm.cursor").await >= head
    })
    .await;
    for id in [of_proof, of_public] {
        let status = scene.database.status(id).await;
        assert!(["receipt_received", "tx_in_flight"].contains(&&*status), "{status}");
    }

    // By the right contract, they are found.
    let real = Some(SignerSets::new(scene.network.gateway.config));
    let responses = Responses::new(scene.tidegate.clone(), chains.gateway, chains.contracts, real);
    let schedule = reconcile::Schedule { after: Duration::ZERO, ..reconcile::Schedule::default() };
    let completed = "select count(*) from tidegate.request where req_status = 'completed'";
    eventually("all are completed", || async {
        reconcile::once(&responses, &schedule).await.unwrap();
        scene.count(completed).await == 3
    })
    .await;
    scene.check_result(&proof, of_proof).await;
    scene.check_result(&public, of_public).await;
    let figures = exporter.render();
    for figure in ["fhevm_foreign_signatures_total", "fhevm_share_wait_seconds_count"] {
        assert!(figures.contains(figure), "{figure}:\n{figures}");
    }
}
