//! Whole programs of a relayer against a network: two nodes behind one address, two workers, one wallet.

use std::path::Path;

use tidegate_fhevm_stand_ins::{
    client::Client,
    fleet::{ANY, Fleet, Process},
    front::Front,
    network::Network,
    workload::{self, Work},
};

use crate::support::TestDatabase;

/// A relayer that runs. Its gateway chain makes a block each second.
pub struct Relayer {
    pub front: Front,
    pub nodes: Vec<Process>,
    pub workers: Vec<Process>,
    pub fleet: Fleet,
    pub network: Network,
    pub database: TestDatabase,
}

impl Relayer {
    pub async fn start() -> Self {
        let database = TestDatabase::unlimited().await;
        let (network, wallets) = Network::with_wallets(1).await.unwrap();
        let program = Path::new(env!("CARGO_BIN_EXE_tidegate-fhevm"));
        let fleet = Fleet::new(program, &database.url, &network, &wallets).await.unwrap();
        let nodes = vec![fleet.serve(ANY).await.unwrap(), fleet.serve(ANY).await.unwrap()];
        let workers = vec![fleet.work(None).unwrap(), fleet.work(None).unwrap()];
        let urls = nodes.iter().filter_map(|node| node.url.clone());
        let front = Front::start(urls.collect()).await.unwrap();
        Self { front, nodes, workers, fleet, network, database }
    }

    /// A caller that follows the SDK's rules.
    pub fn client(&self) -> Client {
        Client::new(self.front.url().clone()).unwrap()
    }

    /// The request of a number, as the stand-ins make it.
    pub fn work(&self, number: u64) -> Work {
        workload::work(&self.network, number).unwrap()
    }

    /// Reads all blocks: so many requests have one transaction each, and the wallet has no other ones.
    pub async fn assert_sent(&self, requests: u64) {
        let report = self.fleet.run(&["check", "--at-rest"]).await.unwrap();
        let sent = format!("{requests} requests, {requests} successful");
        assert!(report.contains(&sent), "{report}");
        let wallet = report.lines().find(|line| line.starts_with("wallet-0")).unwrap();
        let columns: Vec<_> = wallet.split_whitespace().skip(1).collect();
        assert_eq!(columns, ["0", &requests.to_string(), "0", "0", "0"], "{report}");
        println!("{report}");
    }
}
