//! A fleet that is replaced process by process.

use std::time::Duration;

use tidegate_fhevm_stand_ins::{client::Client, fleet::Fleet, network::Network, workload::work};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{interval, timeout},
};

use crate::{relayer::Relayer, support::campaign};

/// Submits requests at a rate until `until` says that they are enough, and waits until each has its right answer; returns
/// how many there were.
async fn load(
    network: &Network,
    client: &Client,
    per_second: u32,
    submitted: &watch::Sender<u64>,
    until: impl Fn(u64) -> bool,
) -> u64 {
    let mut running = JoinSet::new();
    let mut pause = interval(Duration::from_secs(1) / per_second);
    let mut number = 0;
    while !until(number) {
        pause.tick().await;
        let work = work(network, number).unwrap();
        let (client, threshold) = (client.clone(), network.user_threshold);
        running.spawn(async move {
            let outcome = client.run(work.path, &work.body).await.unwrap();
            work.check(&outcome.ended, threshold).unwrap();
        });
        number += 1;
        submitted.send_replace(number);
    }
    running.join_all().await;
    number
}

/// Runs `check`. Beside the load an endpoint may be too slow for it: then it is run again.
async fn check(fleet: &Fleet) {
    let checked = async {
        loop {
            match fleet.run(&["check"]).await {
                Err(error) if error.to_string().contains("did not answer") => {}
                checked => return checked,
            }
        }
    };
    timeout(Duration::from_secs(60), checked).await.unwrap().unwrap();
}

/// S24.
#[tokio::test(flavor = "multi_thread")]
async fn no_call_fails_while_nodes_and_workers_are_restarted() {
    let mut relayer = Relayer::start().await;
    let (submitted, _) = watch::channel(0);
    let (restarted, is_restarted) = watch::channel(false);
    let client = relayer.client();
    let Relayer { network, fleet, nodes, workers, .. } = &mut relayer;
    let restarts = async {
        for _ in 0..2 {
            let node = nodes.remove(0);
            let url = node.url.clone().unwrap();
            node.stop().await.unwrap();
            let at = format!("127.0.0.1:{}", url.port().unwrap());
            nodes.push(fleet.serve(&at).await.unwrap());
            workers.remove(0).stop().await.unwrap();
            workers.push(fleet.work(None).unwrap());
        }
        restarted.send_replace(true);
    };
    let loaded = load(network, &client, 20, &submitted, |_| *is_restarted.borrow());
    let (requests, ()) = tokio::join!(loaded, restarts);
    relayer.assert_sent(requests).await;
}

/// S19, for two minutes.
#[tokio::test(flavor = "multi_thread")]
async fn workers_that_are_stopped_and_killed_under_load_send_each_request_once() {
    let mut relayer = Relayer::start().await;
    // Fifty in a second are more than a family usually has.
    relayer
        .database
        .execute(
            "select tidegate.config_set(kind || '.per_seconds', '100')
             from unnest(array['fhevm_input_proof', 'fhevm_public_decrypt', 'fhevm_user_decrypt']) as kind",
        )
        .await;
    let requests = 50 * campaign(4, 120);
    let restarts = campaign(1, 8);
    let (submitted, mut seen) = watch::channel(0);
    let client = relayer.client();
    let Relayer { network, fleet, workers, .. } = &mut relayer;
    let restarts = async {
        for restart in 1..=restarts {
            seen.wait_for(|number| *number >= requests * restart / (restarts + 1)).await.unwrap();
            let mut worker = workers.remove(0);
            if restart % 2 == 0 {
                worker.kill().await.unwrap();
            } else {
                worker.stop().await.unwrap();
            }
            workers.push(fleet.work(None).unwrap());
            // Transactions are on their way, and none is out of place.
            check(fleet).await;
        }
    };
    let began = tokio::time::Instant::now();
    let loaded = load(network, &client, 50, &submitted, |number| number == requests);
    tokio::join!(loaded, restarts);
    println!("S19: {requests} requests in {:.0?}", began.elapsed());
    relayer.assert_sent(requests).await;
}
