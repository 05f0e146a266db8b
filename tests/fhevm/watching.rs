//! Answers that are early, and the traffic of others.

use alloy::{
    eips::BlockNumberOrTag,
    primitives::{Bytes, U256},
    rpc::types::TransactionRequest,
    sol_types::SolCall,
};
use serde_json::{Value, json};
use tidegate_fhevm_stand_ins::{
    abi::InputVerification,
    chain::{ChainOptions, Mining},
    network::NetworkOptions,
    rpc_proxy::{Fault, Rule},
};

use crate::{
    scene::{Options, Scene},
    support::{campaign, eventually},
};

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_before_the_receipt_is_kept_for_it() {
    let scene = Scene::new().await;
    let _relay = scene.relay();
    scene
        .proxy
        .add(Rule::new("eth_getTransactionReceipt", Fault::Answer(Value::Null)));
    let request = scene.request(0);
    let id = scene.submit(&request).await;
    eventually("its answer has come", || async {
        scene
            .count("select count(*) from tidegate.response_inbox where not late")
            .await
            == 1
    })
    .await;
    assert_eq!(scene.database.status(id).await, "tx_in_flight");

    scene.proxy.clear();

    scene.check_result(&request, id).await;
    assert_eq!(scene.count("select count(*) from tidegate.response_inbox").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_in_the_block_of_its_request_counts() {
    let scene = Scene::with(Options {
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
    let id = scene.submit(&scene.request(0)).await;
    let sent = "select count(*) from evm.attempt where sent_at is not null";
    eventually("its transaction is in the pool", || async {
        scene.count(sent).await == 1
    })
    .await;
    let reject = InputVerification::rejectProofResponseCall {
        zkProofId: U256::from(1),
        extraData: Bytes::from_static(&[0]),
    };
    // It offers less, so it comes later in the block.
    let head = scene
        .network
        .chain
        .block(BlockNumberOrTag::Latest)
        .await
        .unwrap()
        .unwrap();
    let base_fee = u128::from(head.header.base_fee_per_gas.unwrap());
    let rejection = TransactionRequest::default()
        .from(scene.network.coprocessor.signers()[0])
        .to(scene.network.gateway.input_verification)
        .input(Bytes::from(reject.abi_encode()).into())
        .gas_limit(1_000_000)
        .max_fee_per_gas(base_fee)
        .max_priority_fee_per_gas(0);
    let rejection = scene.network.chain.send(&rejection).await.unwrap();

    scene.network.chain.mine(1).await.unwrap();

    assert_eq!(
        scene.result(id).await,
        json!({ "accepted": false, "extraData": "0x00" })
    );
    let receipt = scene.network.chain.receipt(rejection).await.unwrap().unwrap();
    let block = i64::try_from(receipt.block_number.unwrap()).unwrap();
    assert_eq!(
        scene.count("select max(block_number) from fhevm.reference").await,
        block
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_kept_of_the_traffic_of_others() {
    let scene = Scene::new().await;
    let _relay = scene.relay();
    // Another relayer's account, whose transactions anvil signs.
    let stranger = scene.network.chain.keys()[0].address();
    let mut operator = tidegate_fhevm_stand_ins::deploy::Operator::new(scene.network.chain.rpc())
        .await
        .unwrap();
    scene
        .network
        .gateway
        .fund(&mut operator, stranger, 100_000)
        .await
        .unwrap();
    let foreign: u64 = campaign(60, 2_500);
    let own: u64 = campaign(3, 125);
    let mut requests = Vec::new();
    for number in 0..foreign {
        let work = scene.request(1_000_000 + number * 5 + 2 * (number % 2));
        let transaction = TransactionRequest::default()
            .from(stranger)
            .to(work.to)
            .input(work.calldata.clone().into())
            .gas_limit(3_000_000);
        scene.network.chain.send(&transaction).await.unwrap();
        if number % (foreign / own) == 0 {
            let request = scene.request(number);
            requests.push((scene.submit(&request).await, request));
        }
    }
    for (id, request) in &requests {
        scene.check_result(request, *id).await;
    }
    // The watcher has read all of it.
    let head = i64::try_from(scene.network.chain.block_number().await.unwrap()).unwrap();
    eventually("the watcher is at the head", || async {
        scene.count("select coalesce(max(number), 0) from evm.cursor").await >= head
    })
    .await;
    let own = i64::try_from(requests.len()).unwrap();
    assert_eq!(scene.count("select count(*) from fhevm.reference").await, own);
    assert_eq!(scene.count("select count(*) from tidegate.response_inbox").await, 0);
    let parts = "select count(*) from tidegate.response_part as p
                 where not exists (select from tidegate.request as r where r.id = p.request_id)";
    assert_eq!(scene.count(parts).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_an_endpoint_leaves_out_is_found_by_asking_for_it() {
    let scene = Scene::new().await;
    let _relay = scene.relay();
    // Receipts are told, logs are not.
    scene.proxy.add(Rule::new("eth_getLogs", Fault::OmitLogs));
    let requests: Vec<_> = [0, 1, 2, 3].map(|number| scene.request(number)).into();
    let mut ids = Vec::new();
    for request in &requests {
        ids.push(scene.submit(request).await);
    }
    let awaiting = "select count(*) from tidegate.request where req_status = 'receipt_received'";
    eventually("all await their answers", || async { scene.count(awaiting).await == 4 }).await;
    let head = i64::try_from(scene.network.chain.block_number().await.unwrap()).unwrap();
    eventually("the watcher has passed them", || async {
        scene.count("select coalesce(max(number), 0) from evm.cursor").await >= head
    })
    .await;
    scene.proxy.clear();

    let chains = scene.chains().await;
    let responses = tidegate_fhevm::watch::responses(&scene.tidegate, &scene.config, &chains);
    let schedule = tidegate_fhevm::reconcile::Schedule {
        after: std::time::Duration::ZERO,
        ..tidegate_fhevm::reconcile::Schedule::default()
    };
    eventually("all were found", || async {
        tidegate_fhevm::reconcile::once(&responses, &schedule).await.unwrap();
        scene.count(awaiting).await == 0
    })
    .await;

    for (request, id) in requests.iter().zip(ids) {
        scene.check_result(request, id).await;
    }
    assert_eq!(
        scene
            .count("select count(*) from fhevm.reference where not watched")
            .await,
        0
    );
}
