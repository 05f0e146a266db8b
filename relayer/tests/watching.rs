//! Answers that are early, and the traffic of others.

use std::{
    fs,
    time::{Duration, Instant},
};

use alloy::{
    eips::BlockNumberOrTag,
    hex,
    primitives::{B256, Bytes, U256},
    rpc::types::{Filter, Log, TransactionRequest},
    sol_types::{SolCall, SolEvent},
};
use serde_json::{Value, json};
use tidegate_evm::store::BlockId;
use tidegate_fhevm::responses::ApplyError;
use tidegate_fhevm_stand_ins::{
    abi::InputVerification,
    chain::Mining,
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
    scene.proxy.add(Rule::new("eth_getTransactionReceipt", Fault::Answer(Value::Null)));
    let request = scene.request(0);
    let id = scene.submit(&request).await;
    eventually("its answer has come", || async {
        scene.count("select count(*) from tidegate.response_inbox where not late").await == 1
    })
    .await;
    assert_eq!(scene.database.status(id).await, "tx_in_flight");

    scene.proxy.clear();

    scene.check_result(&request, id).await;
    assert_eq!(scene.count("select count(*) from tidegate.response_inbox").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_in_the_block_of_its_request_counts() {
    let scene = Scene::with(Options::of_chain(Mining::OnDemand, 0)).await;
    let _relay = scene.relay();
    let (id, _) = scene.pooled(&scene.request(0)).await;
    let reject =
        InputVerification::rejectProofResponseCall { zkProofId: U256::from(1), extraData: Bytes::from_static(&[0]) };
    // It offers less, so it comes later in the block.
    let head = scene.network.chain.block(BlockNumberOrTag::Latest).await.unwrap().unwrap();
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

    assert_eq!(scene.result(id).await, json!({ "accepted": false, "extraData": "0x00" }));
    let receipt = scene.network.chain.receipt(rejection).await.unwrap().unwrap();
    let block = i64::try_from(receipt.block_number.unwrap()).unwrap();
    assert_eq!(scene.count("select max(block_number) from fhevm.reference").await, block);
}

/// The events of the gateway's contracts after a block.
async fn events(scene: &Scene, after: u64) -> usize {
    let gateway = &scene.network.gateway;
    let filter = Filter::new().address(vec![gateway.decryption, gateway.input_verification]).from_block(after + 1);
    let logs: Vec<Value> = scene.network.chain.rpc().call("eth_getLogs", (filter,)).await.unwrap();
    logs.len()
}

/// How long the threads of a name have run on a processor, where the system tells it.
fn cpu(name: &str) -> Option<Duration> {
    let ticks = fs::read_dir("/proc/self/task").ok()?.flatten().filter_map(|task| {
        let stat = fs::read_to_string(task.path().join("stat")).ok()?;
        let (before, after) = stat.rsplit_once(") ")?;
        let fields: Vec<_> = after.split(' ').collect();
        let used = |field: usize| fields.get(field)?.parse::<u64>().ok();
        before.ends_with(&format!("({name}")).then_some(used(11)? + used(12)?)
    });
    // A tick of these figures is 10 ms on every Linux.
    Some(Duration::from_millis(10 * ticks.sum::<u64>()))
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_kept_of_the_traffic_of_others() {
    let scene = Scene::with(Options::of_chain(Mining::Every(1), 0)).await;
    let _running = [scene.work(), scene.watch()];
    // Another relayer's account, whose transactions anvil signs.
    let stranger = scene.network.chain.keys()[0].address();
    let mut operator = tidegate_fhevm_stand_ins::deploy::Operator::new(scene.network.chain.rpc()).await.unwrap();
    scene.network.gateway.fund(&mut operator, stranger, 100_000).await.unwrap();
    let own: u64 = campaign(3, 105);
    let mut requests = Vec::new();
    // The first requests of contracts need more gas than an estimate says that counts those in the pool.
    for number in [1_000, 1_002] {
        let request = scene.request(number);
        requests.push((scene.submit(&request).await, request));
        scene.ended(requests[requests.len() - 1].0).await;
    }
    let first = scene.network.chain.block_number().await.unwrap();
    let (began, before) = (Instant::now(), cpu("watch"));
    for number in 0..own {
        let foreign = (number * 19..(number + 1) * 19).map(|number| {
            let work = scene.request(1_000_000 + number * 5 + 2 * (number % 2));
            let transaction = TransactionRequest::default()
                .from(stranger)
                .to(work.to)
                .input(work.calldata.clone().into())
                .nonce(number)
                .gas_limit(3_000_000);
            ("eth_sendTransaction", json!([transaction]))
        });
        let sent = scene.network.chain.rpc().batch(&foreign.collect::<Vec<_>>()).await.unwrap();
        assert!(sent.iter().all(Result::is_ok), "{sent:?}");
        let request = scene.request(number);
        requests.push((scene.submit(&request).await, request));
        let head = scene.network.chain.block_number().await.unwrap();
        eventually("the next block", || async { scene.network.chain.block_number().await.unwrap() > head }).await;
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
    if let (Some(before), Some(after)) = (before, cpu("watch")) {
        let (took, used) = (began.elapsed(), after - before);
        let share = 100.0 * used.as_secs_f64() / took.as_secs_f64();
        let events = events(&scene, first).await;
        println!(
            "{events} events in {took:.1?}, {own} requests of ours: the watcher used {used:.1?}, {share:.0} % of a core"
        );
        assert!(share <= 30.0, "{share} % of a core");
    }
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
    let schedule =
        tidegate_fhevm::reconcile::Schedule { after: Duration::ZERO, ..tidegate_fhevm::reconcile::Schedule::default() };
    eventually("all were found", || async {
        tidegate_fhevm::reconcile::once(&responses, &schedule).await.unwrap();
        scene.count(awaiting).await == 0
    })
    .await;

    for (request, id) in requests.iter().zip(ids) {
        scene.check_result(request, id).await;
    }
    assert_eq!(scene.count("select count(*) from fhevm.reference where not watched").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_that_always_leaves_logs_out_hides_answers_for_ninety_seconds_at_most() {
    let mut scene = Scene::new().await;
    let second = scene.network.chain.url().clone();
    std::sync::Arc::get_mut(&mut scene.config).unwrap().gateway.http.push(second);
    scene.proxy.add(Rule::new("eth_getLogs", Fault::OmitLogs));
    let _relay = scene.relay();
    let requests: Vec<_> = [0, 1, 2, 3].map(|number| scene.request(number)).into();
    let mut ids = Vec::new();
    for request in &requests {
        ids.push(scene.submit(request).await);
    }
    let awaiting = "select count(*) from tidegate.request where req_status = 'receipt_received'";
    eventually("all await their answers", || async { scene.count(awaiting).await == 4 }).await;
    let chains = scene.chains().await;
    let responses = tidegate_fhevm::watch::responses(&scene.tidegate, &scene.config, &chains);
    let usual = tidegate_fhevm::reconcile::Schedule::default();
    assert!(usual.after + usual.every <= Duration::from_secs(90));
    let schedule = tidegate_fhevm::reconcile::Schedule { after: Duration::ZERO, ..usual };
    eventually("all were found", || async {
        tidegate_fhevm::reconcile::once(&responses, &schedule).await.unwrap();
        scene.count(awaiting).await == 0
    })
    .await;
    for (request, id) in requests.iter().zip(ids) {
        scene.check_result(request, id).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_chain_is_not_asked_while_answers_are_applied() {
    let scene = Scene::new().await;
    let running = scene.relay();
    // Only its receipt tells of the request.
    scene.proxy.add(Rule::new("eth_getLogs", Fault::OmitLogs));
    let request = scene.request(0);
    let id = scene.submit(&request).await;
    let gateway = &scene.network.gateway;
    let answers = Filter::new()
        .address(gateway.input_verification)
        .event_signature(InputVerification::VerifyProofResponse::SIGNATURE_HASH)
        .from_block(0);
    let logs = || async {
        let logs: Vec<Log> = scene.network.chain.rpc().call("eth_getLogs", (&answers,)).await.unwrap();
        logs
    };
    eventually("it has its receipt, and the chain its answer", || async {
        scene.database.status(id).await == "receipt_received" && !logs().await.is_empty()
    })
    .await;
    let logs = logs().await;
    drop(running);
    let number = scene.count("select block_number from fhevm.reference").await.cast_unsigned();
    let block = scene.network.chain.block(number).await.unwrap().unwrap();
    let block = BlockId::of(&block.header);
    let chains = scene.chains().await;
    let responses = tidegate_fhevm::watch::responses(&scene.tidegate, &scene.config, &chains);
    let apply = async |others: &[BlockId]| {
        let mut transaction = scene.database.pool.begin().await.unwrap();
        let applied = responses.apply(&mut transaction, &logs, others).await;
        if applied.is_ok() {
            transaction.commit().await.unwrap();
        }
        applied
    };
    let unknown = apply(&[]).await.unwrap_err();
    assert!(matches!(&unknown, ApplyError::Blocks(blocks) if *blocks == [number]), "{unknown}");
    assert!(matches!(apply(&[block]).await.unwrap_err(), ApplyError::Lacking));

    responses.prepare().await.unwrap();
    scene.proxy.add(Rule::all(Fault::Status(503)));
    // The watcher has read the request in a block that the chain has dropped since: its id may be a stranger's.
    let of_block = |watched: bool, hash: B256| {
        let hash = hex::encode(hash);
        format!("update fhevm.reference set watched = {watched}, block_hash = decode('{hash}', 'hex')")
    };
    scene.database.execute(&of_block(true, B256::repeat_byte(1))).await;
    assert_eq!(apply(&[block]).await.unwrap().responses, 0);
    scene.database.execute(&of_block(false, block.hash)).await;
    assert_eq!(apply(&[block]).await.unwrap().responses, 1);
    scene.check_result(&request, id).await;
}
