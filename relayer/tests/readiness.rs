//! Which requests wait, and which fail, before anything is sent for them.

use std::time::{Duration, Instant};

use alloy::{primitives::Address, sol_types::SolCall};
use serde_json::{Value, json};
use tidegate::request::Status;
use tidegate_fhevm::request::Family;
use tidegate_fhevm_stand_ins::{
    abi::{ACL, CiphertextCommits},
    chain::ChainOptions,
    deploy::Operator,
    network::NetworkOptions,
    rpc_proxy::{Fault, Rule},
};

use crate::{
    scene::{Options, Scene, handle},
    support::{campaign, eventually},
};

/// The second host chain.
const OTHER: u64 = 31338;

/// How long a ready request takes at most while others wait.
const PROMPTLY: Duration = Duration::from_secs(10);

async fn two_hosts() -> Scene {
    let network = NetworkOptions::default();
    let hosts = vec![network.hosts[0], ChainOptions { chain_id: OTHER, ..network.hosts[0] }];
    Scene::with(Options { network: NetworkOptions { hosts, ..network }, ..Options::default() }).await
}

fn public(handles: &[alloy::primitives::B256]) -> Value {
    json!({ "ciphertextHandles": handles, "extraData": "0x00" })
}

/// Throws a switch of a host chain's contract.
async fn switch<C: SolCall>(scene: &Scene, host: usize, contract: Address, call: &C) {
    let mut operator = Operator::new(scene.network.hosts[host].0.rpc()).await.unwrap();
    operator.send(contract, call).await.unwrap();
    operator.mined().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn each_chain_has_to_allow_its_handles() {
    let scene = two_hosts().await;
    let _relay = scene.relay();
    let chain = scene.network.hosts[0].0.chain_id();
    let both = public(&[handle(chain, 1), handle(OTHER, 2)]);

    let allowed = scene.submit_body(Family::PublicDecrypt, &both).await;
    assert_eq!(scene.ended(allowed).await.status, Status::Completed);

    let deny = ACL::denyDecryptionCall { handle: handle(OTHER, 2), denied_: true };
    switch(&scene, 1, scene.network.hosts[1].1.acl, &deny).await;
    let denied = scene.submit_body(Family::PublicDecrypt, &both).await;
    assert_eq!(scene.label(denied).await, "not_allowed_on_host_acl");
    let other = scene.submit_body(Family::PublicDecrypt, &public(&[handle(chain, 1)])).await;
    assert_eq!(scene.ended(other).await.status, Status::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_and_a_delegate_need_what_the_acl_says_of_them() {
    let scene = Scene::new().await;
    let _relay = scene.relay();
    let acl = scene.network.hosts[0].1.acl;
    for (number, member) in [(3, "userAddress"), (4, "delegateAddress")] {
        let (allowed, denied) = (scene.request(number), scene.request(number + 5));
        let (handle, address): (_, Address) = (
            denied.body["handleContractPairs"][0]["handle"].as_str().unwrap().parse().unwrap(),
            denied.body[member].as_str().unwrap().parse().unwrap(),
        );
        if member == "userAddress" {
            let deny = ACL::denyCall { handle, account: address, denied_: true };
            switch(&scene, 0, acl, &deny).await;
        } else {
            let deny = ACL::denyDelegationCall { handle, delegate: address, denied_: true };
            switch(&scene, 0, acl, &deny).await;
        }
        let (allowed_id, denied_id) = (scene.submit(&allowed).await, scene.submit(&denied).await);
        assert_eq!(scene.label(denied_id).await, "not_allowed_on_host_acl");
        scene.check_result(&allowed, allowed_id).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_chain_that_does_not_answer_fails_a_check_after_three_tries() {
    let scene = Scene::new().await;
    let _relay = scene.relay();
    let chain = scene.network.hosts[0].0.chain_id();
    let body = public(&[handle(chain, 1)]);

    // Two failures are survived.
    scene.host_proxy.add(Rule::new("eth_call", Fault::Status(500)).times(2));
    let patient = scene.submit_body(Family::PublicDecrypt, &body).await;
    assert_eq!(scene.ended(patient).await.status, Status::Completed);

    scene.host_proxy.add(Rule::new("eth_call", Fault::Status(500)));
    let failed = scene.submit_body(Family::PublicDecrypt, &body).await;
    assert_eq!(scene.label(failed).await, "host_acl_failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_whose_material_is_missing_wait_and_hold_no_place() {
    let mut scene = Scene::new().await;
    let places = campaign(20, 250);
    let waiting: u16 = campaign(200, 5000);
    scene
        .database
        .execute(&format!("update tidegate.queue set max_concurrency = {places} where name = 'fhevm_public_ready'"))
        .await;
    let chain = scene.network.hosts[0].0.chain_id();
    let (missing, commits) = (handle(chain, 1), scene.network.gateway.commits);
    let switch = |missing_| CiphertextCommits::setMissingCall { ctHandle: missing, missing_ };
    scene.switch(commits, &switch(true)).await;
    for _ in 0..waiting {
        scene.submit_body(Family::PublicDecrypt, &public(&[missing])).await;
    }
    let submitted = Instant::now();
    let _relay = scene.relay();
    let snoozed = "select count(*) from tidegate.request where readiness_waits > 0";
    for hundredth in 1..=100 {
        let share = i64::from(waiting) * hundredth / 100;
        eventually("each of them waits", || async { scene.count(snoozed).await >= share }).await;
    }

    let mut slowest = Duration::ZERO;
    for seed in 2..campaign(4, 12) {
        let began = Instant::now();
        let ready = public(&[handle(chain, seed)]);
        let ready = scene.submit_body(Family::PublicDecrypt, &ready).await;
        assert_eq!(scene.ended(ready).await.status, Status::Completed);
        slowest = slowest.max(began.elapsed());
    }
    println!("{waiting} wait for {places} places: the slowest ready request took {slowest:?}");
    assert!(slowest < PROMPTLY, "{slowest:?}");

    // Half a minute later, none has ended.
    let long = Duration::from_secs(campaign(3, 30));
    eventually("they have waited", || async { submitted.elapsed() >= long }).await;
    let waits = "select count(*) from tidegate.request where req_status in ('queued', 'processing')";
    assert_eq!(scene.count(waits).await, i64::from(waiting));

    scene.switch(commits, &switch(false)).await;
    let completed = "select count(*) from tidegate.request where req_status = 'completed'";
    let before = scene.count(completed).await;
    for sent in [20, 40, 60, 80, 100] {
        eventually("they are sent, at the rate of their queue", || async {
            scene.count(completed).await >= before + sent
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_material_does_not_come_ends_with_its_label() {
    let mut scene = Scene::new().await;
    scene
        .database
        .execute("update tidegate.kind set readiness_timeout = '4 seconds' where name = 'fhevm_public_decrypt'")
        .await;
    let commits = scene.network.gateway.commits;
    let all = CiphertextCommits::setAllMissingCall { missing_: true };
    scene.switch(commits, &all).await;
    let _relay = scene.relay();
    let chain = scene.network.hosts[0].0.chain_id();
    let id = scene.submit_body(Family::PublicDecrypt, &public(&[handle(chain, 1)])).await;
    let ended = scene.ended(id).await;
    assert_eq!(ended.status, Status::TimedOut);
    assert_eq!(ended.error.unwrap().code, "readiness_timed_out");
    assert!(scene.count("select max(readiness_waits) from tidegate.request").await > 0);
}
