//! A fleet that is replaced process by process.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate_fhevm_stand_ins::chain::{ChainOptions, Mining};
use tidegate_fhevm_stand_ins::client::Client;
use tidegate_fhevm_stand_ins::fleet::{ANY, Fleet};
use tidegate_fhevm_stand_ins::front::Front;
use tidegate_fhevm_stand_ins::network::{Network, NetworkOptions};
use tidegate_fhevm_stand_ins::workload::{REJECTED, work};
use tokio::task::JoinSet;
use tokio::time::interval;

use crate::support::TestDatabase;

/// S24.
#[tokio::test(flavor = "multi_thread")]
async fn no_call_fails_while_nodes_and_workers_are_restarted() {
    let database = TestDatabase::unlimited().await;
    let usual = NetworkOptions::default();
    let options = NetworkOptions {
        gateway: ChainOptions {
            mining: Mining::Every(1),
            ..usual.gateway
        },
        ..usual
    };
    let mut network = Network::start(&options).await.unwrap();
    network.coprocessor.reject(REJECTED);
    let wallet = network.chain.keys()[0].clone();
    network
        .gateway
        .fund(&mut network.operator, wallet.address(), 100_000)
        .await
        .unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_tidegate-fhevm"));
    let fleet = Fleet::new(program, &database.url, &network, &[wallet]).await.unwrap();
    let mut nodes = vec![fleet.serve(ANY).await.unwrap(), fleet.serve(ANY).await.unwrap()];
    let mut workers = vec![fleet.work(None).unwrap(), fleet.work(None).unwrap()];
    let front = Front::start(nodes.iter().filter_map(|node| node.url.clone()).collect())
        .await
        .unwrap();

    let client = Client::new(front.url().clone()).unwrap();
    let restarted = Arc::new(AtomicBool::new(false));
    let network = Arc::new(network);
    let load = tokio::spawn({
        let (network, restarted) = (network.clone(), restarted.clone());
        async move {
            let mut running = JoinSet::new();
            let mut pause = interval(Duration::from_millis(50));
            let mut number = 0;
            while !restarted.load(Ordering::Relaxed) {
                pause.tick().await;
                let work = work(&network, number).unwrap();
                let (client, threshold) = (client.clone(), network.user_threshold);
                running.spawn(async move {
                    let outcome = client.run(work.path, &work.body).await.unwrap();
                    work.check(&outcome.ended, threshold).unwrap();
                });
                number += 1;
            }
            running.join_all().await;
            number
        }
    });
    for _ in 0..2 {
        let node = nodes.remove(0);
        let url = node.url.clone().unwrap();
        node.stop().await.unwrap();
        let at = format!("127.0.0.1:{}", url.port().unwrap());
        nodes.push(fleet.serve(&at).await.unwrap());
        workers.remove(0).stop().await.unwrap();
        workers.push(fleet.work(None).unwrap());
    }
    restarted.store(true, Ordering::Relaxed);
    let requests = load.await.unwrap();
    let report = fleet.run(&["check", "--at-rest"]).await.unwrap();
    assert!(
        report.contains(&format!("{requests} requests, {requests} successful")),
        "{report}"
    );
}
