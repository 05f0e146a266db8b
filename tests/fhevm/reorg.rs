//! Reorganisations of the gateway chain.

use alloy::{primitives::B256, rpc::types::TransactionRequest};
use serde_json::{Value, json};
use tidegate_fhevm_stand_ins::{
    chain::{ChainOptions, Mining},
    deploy::Operator,
    network::NetworkOptions,
    rpc_proxy::{Fault, Rule},
};

use crate::{
    scene::{Options, Scene},
    support::{campaign, eventually},
};

fn options(mining: Mining, confirmations: u64) -> Options {
    Options {
        network: NetworkOptions {
            gateway: ChainOptions {
                mining,
                ..NetworkOptions::default().gateway
            },
            ..NetworkOptions::default()
        },
        keys: vec![("GATEWAY__CONFIRMATIONS", confirmations.to_string())],
        ..Options::default()
    }
}

/// Requests and their answers are dropped with their blocks, twice, and the network answers again.
async fn requests_survive(confirmations: u64) {
    let scene = Scene::with(options(Mining::Every(1), confirmations)).await;
    // No reorganisation reaches the blocks that have the contracts and the wallets' funds.
    scene.network.chain.mine(10).await.unwrap();
    let _relay = scene.relay();
    let requests: Vec<_> = (0..campaign(10, 100)).map(|number| scene.request(number)).collect();
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
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_survive_reorganisations_without_confirmations() {
    requests_survive(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_survive_reorganisations_with_three_confirmations() {
    requests_survive(3).await;
}

/// The id that a request had on a dropped fork is a stranger's now, and an endpoint still shows the old receipt.
#[tokio::test(flavor = "multi_thread")]
async fn the_answer_to_a_stranger_with_our_old_id_is_not_taken() {
    let scene = Scene::with(options(Mining::OnDemand, 0)).await;
    let stranger = scene.network.chain.keys()[0].address();
    let mut operator = Operator::new(scene.network.chain.rpc()).await.unwrap();
    scene.network.gateway.fund(&mut operator, stranger, 10).await.unwrap();
    let _relay = scene.relay();
    let request = scene.request(0);
    let id = scene.submit(&request).await;
    let sent = "select count(*) from evm.attempt where sent_at is not null";
    eventually("its transaction is in the pool", || async {
        scene.count(sent).await == 1
    })
    .await;
    let hash = sqlx::query_scalar::<_, Vec<u8>>("select hash from evm.attempt");
    let hash = B256::from_slice(&hash.fetch_one(&scene.database.pool).await.unwrap());
    // No endpoint shows the receipt until its block is dropped.
    let (receipt, count) = ("eth_getTransactionReceipt", "eth_getTransactionCount");
    scene.proxy.add(Rule::new(receipt, Fault::Answer(Value::Null)));
    scene.network.chain.mine(1).await.unwrap();
    let dropped: Value = scene.network.chain.rpc().call(receipt, (hash,)).await.unwrap();
    let told = |watched: bool| format!("select count(*) from fhevm.reference where watched = {watched}");
    let (watched, unwatched) = (told(true), told(false));
    eventually("the watcher has read the request", || async {
        scene.count(&watched).await == 1
    })
    .await;
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
    eventually("the watcher has forgotten the dropped block", || async {
        scene.count(&watched).await == 0
    })
    .await;
    scene.proxy.clear();
    scene
        .proxy
        .add(Rule::new(receipt, Fault::Answer(dropped)).containing(hash.to_string()));
    scene.proxy.add(Rule::new(count, Fault::Answer(json!("0x1"))));
    eventually("the old receipt has told an id", || async {
        scene.count(&unwatched).await == 1
    })
    .await;

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
