//! The commands `init`, `wallet` and `check`, as operators run them.

use std::{os::unix::fs::PermissionsExt, path::Path};

use alloy::{primitives::U256, rpc::types::TransactionRequest};
use tidegate_fhevm_stand_ins::{
    fleet::Fleet,
    network::{Network, NetworkOptions},
};

use crate::{relayer::Relayer, support::TestDatabase};

/// An operator's place: a configuration with two wallets, of which none is adopted.
struct Operator {
    database: TestDatabase,
    network: Network,
    fleet: Fleet,
}

/// What came of a command.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ended {
    fn succeeded(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        self.out
    }

    /// It has failed with nothing done, and its last line says all of these.
    fn failed(self, with: &[&str]) {
        assert_eq!((self.code, self.out.as_str()), (Some(1), ""), "{self:?}");
        let line = self.err.lines().last().unwrap();
        assert!(line.starts_with("tidegate-fhevm: "), "{line}");
        for part in with {
            assert!(line.contains(part), "{part}: {line}");
        }
    }
}

async fn run(fleet: &Fleet, line: &str, variables: &[(&str, &str)]) -> Ended {
    let mut command = fleet.command();
    command.args(line.split_whitespace()).envs(variables.iter().copied());
    let output = command.output().await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

impl Operator {
    async fn new(database: TestDatabase) -> Self {
        let network = Network::start(&NetworkOptions::default()).await.unwrap();
        let program = Path::new(env!("CARGO_BIN_EXE_tidegate-fhevm"));
        let fleet = Fleet::unprepared(program, &database.url, &network, &network.chain.keys()[..2]).unwrap();
        Self { database, network, fleet }
    }

    async fn run(&self, line: &str) -> Ended {
        run(&self.fleet, line, &[]).await
    }

    async fn run_with(&self, line: &str, variable: &str, value: &str) -> Ended {
        run(&self.fleet, line, &[(variable, value)]).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_or_wrong_is_named_with_what_to_do() {
    let operator = Operator::new(TestDatabase::empty().await).await;
    let uses = ["wallet list", "wallet add wallet-0", "wallet off wallet-0", "check", "work", "watch"];
    for line in uses {
        operator.run(line).await.failed(&["not migrated", "run `tidegate-fhevm init` first"]);
    }
    // Tidegate's own tables are there, the relayer's are not.
    tidegate::internals::schema::migrate(&operator.database.url).await.unwrap();
    for line in uses {
        operator.run(line).await.failed(&["run `tidegate-fhevm init` first"]);
    }
    let away = operator.run_with("init", "DATABASE_URL", "postgres://a@127.0.0.1:1/a");
    away.await.failed(&["the database cannot be reached"]);
    let away = operator.run_with("wallet list", "DATABASE_URL", "postgres://a@127.0.0.1:1/a");
    away.await.failed(&["the database cannot be reached", "check the URL"]);
    let made = "made fhevm_input_proof, fhevm_public_decrypt, fhevm_user_decrypt\n";
    assert_eq!(operator.run("init").await.succeeded(), made);

    for line in ["", "wallet", "wallet add", "wallet list a", "check --from a", "wallets", "init a"] {
        let ended = operator.run(line).await;
        assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{line}: {ended:?}");
        assert!(ended.err.contains("For more information, try '--help'."), "{ended:?}");
    }
    operator.run("wallet list --config nowhere.toml").await.failed(&["nowhere.toml", "not found"]);
    for line in ["check", "drain", "off", "resync"] {
        let unknown = operator.run(&format!("wallet {line} b")).await;
        unknown.failed(&["no wallet b", "`wallet list`"]);
    }
    operator.run("wallet add b").await.failed(&["no wallet b", "[[wallets]]"]);
    operator.run("check --from 1000000").await.failed(&["block 1000000 is not there"]);
    operator.run("work").await.failed(&["tidegate-fhevm wallet add NAME"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_that_cannot_be_used_is_not_adopted() {
    let operator = Operator::new(TestDatabase::uninitialised().await).await;
    operator.run("init").await.succeeded();
    let folder = tempfile::tempdir().unwrap();
    let (file, second) = (folder.path().join("key"), &operator.network.chain.keys()[1]);
    std::fs::write(&file, alloy::hex::encode(second.to_bytes())).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let file_key = [
        ("TIDEGATE_FHEVM__WALLETS__2__NAME", "file"),
        ("TIDEGATE_FHEVM__WALLETS__2__KEY_FILE", file.to_str().unwrap()),
    ];
    let add_file = || run(&operator.fleet, "wallet add file", &file_key);
    add_file().await.failed(&["wallet file", "set its mode to 0600"]);
    for (variable, value, said) in [
        ("WALLET_0_KEY", "0x12", "64 hexadecimal digits"),
        ("TIDEGATE_FHEVM__WALLETS__0__KEY_ENV", "NOT_SET", "NOT_SET has no key"),
        ("TIDEGATE_FHEVM__WALLETS__0__KEY_FILE", "key", "one of key_env and key_file"),
        ("TIDEGATE_FHEVM__WALLETS__0__NAME", "Hot", "no name of a wallet"),
        ("TIDEGATE_FHEVM__WALLETS__1__NAME", "wallet-0", "twice"),
        ("TIDEGATE_FHEVM__WALLETS__0__IN_FLIGHT_MAX", "0", "has to be positive"),
        ("TIDEGATE_FHEVM__GATEWAY__CHAIN_ID", "1", "correct its URL"),
        ("TIDEGATE_FHEVM__GATEWAY__HTTP", "http://127.0.0.1:1", "check their URLs"),
    ] {
        let refused = operator.run_with("wallet add wallet-0", variable, value).await;
        refused.failed(&[said]);
    }
    assert_eq!(
        operator.run("wallet list").await.succeeded(),
        "chain 54321 has no wallet: `wallet add NAME` adopts one\n"
    );

    // Another program has sent from the account, and it waits: the chain makes a block a second later at the earliest.
    let rpc = operator.network.chain.rpc();
    rpc.call::<serde_json::Value>("evm_setAutomine", [false]).await.unwrap();
    rpc.call::<serde_json::Value>("evm_setIntervalMining", [0]).await.unwrap();
    let transfer = TransactionRequest::default().from(second.address()).to(second.address()).value(U256::from(1));
    operator.network.chain.send(&transfer).await.unwrap();
    operator.run("wallet add wallet-1").await.failed(&["stop what else uses its key"]);
    operator.network.chain.mine(1).await.unwrap();
    let adopted = operator.run("wallet add wallet-1").await.succeeded();
    assert_eq!(adopted, format!("wallet-1 is {}, from nonce 1 on\n", second.address()));
    operator.run("wallet add wallet-1").await.failed(&["already"]);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    add_file().await.failed(&["already"]);
    let list = operator.run("wallet list").await.succeeded();
    assert_eq!(list.lines().count(), 2, "{list}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wallet_is_drained_stopped_and_taken_into_use_again() {
    let relayer = Relayer::start().await;
    let run = async |line: &str| run(&relayer.fleet, line, &[]).await;
    let client = relayer.client();
    let submit = async |number| {
        let work = relayer.work(number);
        let outcome = client.run(work.path, &work.body).await.unwrap();
        work.check(&outcome.ended, relayer.network.user_threshold).unwrap();
    };
    submit(0).await;
    let check = run("wallet check wallet-0").await.succeeded();
    for part in ["active", "next 1, 0 in flight; mined 1, pending count 1", "pays for  99999 requests"] {
        assert!(check.contains(part), "{part}: {check}");
    }
    run("wallet resync wallet-0").await.failed(&["in use", "`wallet off`"]);
    let drained = run("wallet drain wallet-0").await.succeeded();
    assert_eq!(drained, "wallet-0 takes no new orders; 0 transactions are in flight\n");
    assert!(run("wallet drain wallet-0").await.succeeded().contains("already"));
    assert!(run("wallet list").await.succeeded().contains(" draining "));
    let off = run("wallet off wallet-0").await.succeeded();
    assert_eq!(off, "wallet-0 is off: its 0 orders in flight wait until `wallet resync`\n");
    assert!(run("wallet off wallet-0").await.succeeded().contains("already"));
    run("wallet drain wallet-0").await.failed(&["is off", "`wallet resync`"]);
    run("wallet add wallet-0").await.failed(&["already"]);
    for line in ["wallet list", "wallet check wallet-0"] {
        let shown = run(line).await.succeeded();
        assert!(shown.contains("\n  an operator took it out of use"), "{shown}");
    }
    let resync = run("wallet resync wallet-0").await.succeeded();
    let lines = "wallet-0 was off: an operator took it out of use\nwallet-0 is in use again\n";
    assert_eq!(resync, lines);
    submit(5).await;
    relayer.assert_sent(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_of_some_blocks_wants_only_what_they_have_and_finds_what_is_not_ours() {
    let relayer = Relayer::start().await;
    let run = async |line: &str| run(&relayer.fleet, line, &[]).await;
    let client = relayer.client();
    for number in [0, 5] {
        let work = relayer.work(number);
        client.run(work.path, &work.body).await.unwrap();
    }
    let first = relayer.database.number("select min(block_number) from evm.tx").await;
    let report = run(&format!("check --at-rest --from {}", first + 1)).await.succeeded();
    for part in ["2 requests, 1 successful transactions", "0 violations"] {
        assert!(report.contains(part), "{part}: {report}");
    }

    let wallet = relayer.network.chain.keys()[0].address();
    let foreign = TransactionRequest::default().from(wallet).to(wallet).value(U256::from(1));
    let foreign = relayer.network.chain.send(&foreign).await.unwrap();
    relayer.network.chain.rpc().mined(foreign).await.unwrap();
    let found = run("check").await;
    assert_eq!(found.code, Some(1), "{found:?}");
    assert!(found.out.contains(&format!("VIOLATION: wallet wallet-0: nonce 2 was used by {foreign}")));
    assert!(found.err.ends_with("tidegate-fhevm: 1 violations\n"), "{found:?}");
}
