//! An operator moves an account over from another relayer, back, and over once more, by the steps of `docs/fhevm.md`.

use std::path::Path;
use std::time::Duration;

use alloy::primitives::{Address, U64};
use alloy::rpc::types::TransactionRequest;
use tidegate_fhevm_stand_ins::chain::Anvil;
use tidegate_fhevm_stand_ins::client::Client;
use tidegate_fhevm_stand_ins::fleet::{ANY, Fleet};
use tidegate_fhevm_stand_ins::network::Network;
use tidegate_fhevm_stand_ins::workload::work;
use tokio::task::JoinSet;
use tokio::time::{interval, timeout};

use crate::support::TestDatabase;

const WALLET: &str = "wallet-0";

/// How many transactions of an account are mined.
async fn mined(chain: &Anvil, account: Address) -> u64 {
    let count: U64 = chain.rpc().call("eth_getTransactionCount", (account, "latest")).await.unwrap();
    count.to()
}

/// The other relayer sends two transactions from the account, and they are mined.
async fn another_relayer(chain: &Anvil, account: Address) {
    let before = mined(chain, account).await;
    for _ in 0..2 {
        let transaction = TransactionRequest::default().from(account).to(account);
        chain.send(&transaction).await.unwrap();
    }
    until(async || mined(chain, account).await == before + 2).await;
}

async fn until(mut holds: impl AsyncFnMut() -> bool) {
    let looks = async {
        let mut pause = interval(Duration::from_millis(100));
        while !holds().await {
            pause.tick().await;
        }
    };
    timeout(Duration::from_secs(60), looks).await.unwrap();
}

/// The state of the wallet, its first and its next nonce, and its transactions in flight, as `wallet list` shows them.
async fn listed(fleet: &Fleet) -> [String; 4] {
    let list = fleet.run(&["wallet", "list"]).await.unwrap();
    let row = list.lines().find(|line| line.starts_with(WALLET)).unwrap();
    let cells: Vec<_> = row.split_whitespace().collect();
    [2, 3, 5, 6].map(|column: usize| cells[column].to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_moves_over_and_back_and_over_again() {
    let database = TestDatabase::unlimited().await;
    let (network, keys) = Network::with_wallets(1).await.unwrap();
    let account = keys[0].address();
    another_relayer(&network.chain, account).await;

    // `init` and `wallet add`.
    let program = Path::new(env!("CARGO_BIN_EXE_tidegate-fhevm"));
    let fleet = Fleet::new(program, &database.url, &network, &keys).await.unwrap();
    let first = mined(&network.chain, account).await;
    let shown = [first, first].map(|nonce| nonce.to_string());
    assert_eq!(listed(&fleet).await[1..3], shown, "from the first nonce that the other has not used");
    let node = fleet.serve(ANY).await.unwrap();
    let worker = fleet.work(None).unwrap();
    let client = Client::new(node.url.clone().unwrap()).unwrap();
    let call = |number| {
        let (client, work, threshold) = (client.clone(), work(&network, number).unwrap(), network.user_threshold);
        async move {
            let outcome = client.run(work.path, &work.body).await.unwrap();
            work.check(&outcome.ended, threshold).unwrap();
        }
    };
    (0..5).map(call).collect::<JoinSet<_>>().join_all().await;

    fleet.run(&["wallet", "drain", WALLET]).await.unwrap();
    let held = tokio::spawn(call(5));
    until(async || listed(&fleet).await[3].starts_with("0/")).await;
    worker.stop().await.unwrap();
    fleet.run(&["wallet", "off", WALLET]).await.unwrap();
    let next = (first + 5).to_string();
    assert_eq!(listed(&fleet).await, ["off", &shown[0], &next, "0/64"]);
    assert_eq!(mined(&network.chain, account).await, first + 5, "a draining wallet takes nothing new");
    another_relayer(&network.chain, account).await;

    let said = fleet.run(&["wallet", "resync", WALLET]).await.unwrap();
    assert!(said.ends_with("wallet-0 is in use again\n"), "{said}");
    let _worker = fleet.work(None).unwrap();
    held.await.unwrap();
    call(6).await;
    let report = fleet.run(&["check", "--at-rest"]).await.unwrap();
    assert!(report.contains("7 requests, 7 successful"), "{report}");
}
