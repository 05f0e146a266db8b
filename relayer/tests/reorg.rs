//! Reorganisations of the gateway chain.

use std::{collections::HashSet, time::Duration};

use alloy::rpc::types::{Filter, Log, TransactionRequest};
use serde_json::{Value, json};
use tidegate_fhevm::answers::Contracts;
use tidegate_fhevm_stand_ins::{
    chain::Mining,
    deploy::Operator,
    rpc_proxy::{Fault, Rule},
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    scene::{Options, Scene},
    support::{campaign, eventually},
};

/// The parts of the answers that the gateway has given, in blocks with three blocks after them.
async fn deep_answers(scene: &Scene) -> Vec<Value> {
    let gateway = &scene.network.gateway;
    let contracts = Contracts { decryption: gateway.decryption, input_verification: gateway.input_verification };
    let head = scene.network.chain.block_number().await.unwrap();
    let filter =
        Filter::new().address(vec![gateway.decryption, gateway.input_verification]).from_block(0).to_block(head - 3);
    let logs: Vec<Log> = scene.network.chain.rpc().call("eth_getLogs", (filter,)).await.unwrap();
    let answers = logs.iter().filter_map(|log| contracts.event(log)?.answer);
    answers.map(|answer| answer.response()).collect()
}

/// Looks at the requests as their clients do, until `ended`. Returns how many had an answer that was not in a block
/// with three blocks after it, which no reorganisation here drops.
async fn hasty_answers(scene: &Scene, requests: usize, ended: CancellationToken) -> usize {
    let (mut seen, mut hasty) = (HashSet::new(), 0);
    let mut looks = tokio::time::interval(Duration::from_millis(50));
    while seen.len() < requests && ended.run_until_cancelled(looks.tick()).await.is_some() {
        let completed = "select id, response from tidegate.request where req_status = 'completed'";
        let completed: Vec<(Uuid, Value)> = sqlx::query_as(completed).fetch_all(&scene.database.pool).await.unwrap();
        let new: Vec<_> = completed.into_iter().filter(|(id, _)| seen.insert(*id)).collect();
        if !new.is_empty() {
            let deep = deep_answers(scene).await;
            let is_deep = |answer: &Value| match answer.get("shares").and_then(Value::as_object) {
                Some(shares) => shares.values().all(|share| deep.contains(share)),
                None => deep.contains(answer),
            };
            hasty += new.iter().filter(|(_, answer)| !is_deep(answer)).count();
        }
    }
    hasty
}

/// Requests and their answers are dropped with their blocks, twice, and the network answers again. Returns how many
/// answers could be seen before they had three confirmations.
async fn requests_survive(confirmations: u64) -> usize {
    let scene = Scene::with(Options::of_chain(Mining::Every(1), confirmations)).await;
    // No reorganisation reaches the blocks that have the contracts and the wallets' funds.
    scene.network.chain.mine(10).await.unwrap();
    let _relay = scene.relay();
    let requests: Vec<_> = (0..campaign(10, 100)).map(|number| scene.request(number)).collect();
    let ended = CancellationToken::new();
    let story = async {
        let _ended = ended.clone().drop_guard();
        let mut ids = Vec::new();
        for (number, request) in requests.iter().enumerate() {
            ids.push(scene.submit(request).await);
            if number % (requests.len() / 2) == requests.len() / 4 {
                eventually("the request is in a block", || async {
                    let mined = "select count(*) from evm.tx where state = 'mined'";
                    scene.count(mined).await > 0
                })
                .await;
                scene.network.chain.reorg(3).await.unwrap();
            }
        }
        for (request, id) in requests.iter().zip(&ids) {
            scene.check_result(request, *id).await;
        }
        let open = "select count(*) from evm.tx where state not in ('mined', 'final')";
        eventually("each is in a block", || async { scene.count(open).await == 0 }).await;
        scene.check_chain().await;
    };
    let (hasty, ()) = tokio::join!(hasty_answers(&scene, requests.len(), ended.clone()), story);
    hasty
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_survive_reorganisations_without_confirmations() {
    assert_ne!(requests_survive(0).await, 0, "the looks are often enough to tell");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_survive_reorganisations_with_three_confirmations() {
    assert_eq!(requests_survive(3).await, 0, "answers of blocks that may be dropped");
}

/// The id that a request had on a dropped fork is a stranger's now, and an endpoint still shows the old receipt.
#[tokio::test(flavor = "multi_thread")]
async fn the_answer_to_a_stranger_with_our_old_id_is_not_taken() {
    let scene = Scene::with(Options::of_chain(Mining::OnDemand, 0)).await;
    let stranger = scene.network.chain.keys()[0].address();
    let mut operator = Operator::new(scene.network.chain.rpc()).await.unwrap();
    scene.network.gateway.fund(&mut operator, stranger, 10).await.unwrap();
    let _relay = scene.relay();
    let request = scene.request(0);
    let (id, hash) = scene.pooled(&request).await;
    // No endpoint shows the receipt until its block is dropped.
    let (receipt, count) = ("eth_getTransactionReceipt", "eth_getTransactionCount");
    scene.proxy.add(Rule::new(receipt, Fault::Answer(Value::Null)));
    scene.network.chain.mine(1).await.unwrap();
    let dropped: Value = scene.network.chain.rpc().call(receipt, (hash,)).await.unwrap();
    let told = |watched: bool| format!("select count(*) from fhevm.reference where watched = {watched}");
    let (watched, unwatched) = (told(true), told(false));
    eventually("the watcher has read the request", || async { scene.count(&watched).await == 1 }).await;
    // Ours is sent again only after the stranger's was mined.
    let held = Rule::new("eth_sendRawTransaction", Fault::Refuse(-32000, "not now"));
    scene.proxy.add(held);
    scene.network.chain.reorg(1).await.unwrap();
    let foreign = scene.request(5);
    let transaction = TransactionRequest::default()
        .from(stranger)
        .to(foreign.to)
        .input(foreign.calldata.clone().into())
        .gas_limit(3_000_000);
    scene.network.chain.send(&transaction).await.unwrap();
    scene.network.chain.mine(1).await.unwrap();
    eventually("the watcher has forgotten the dropped block", || async { scene.count(&watched).await == 0 }).await;
    scene.proxy.clear();
    scene.proxy.add(Rule::new(receipt, Fault::Answer(dropped)).containing(hash.to_string()));
    scene.proxy.add(Rule::new(count, Fault::Answer(json!("0x1"))));
    eventually("the old receipt has told an id", || async { scene.count(&unwatched).await == 1 }).await;

    eventually("the answer to the stranger was read, and the row is gone", || async {
        scene.network.chain.mine(1).await.unwrap();
        scene.count(&unwatched).await == 0
    })
    .await;

    scene.proxy.clear();
    eventually("its own answer came, once it was mined again", || async {
        scene.network.chain.mine(1).await.unwrap();
        scene.database.status(id).await == "completed"
    })
    .await;
    scene.check_result(&request, id).await;
    assert_eq!(scene.count("select count(*) from tidegate.response_inbox").await, 0);
}
