//! Runs the published SDK against the relayer.

use std::{path::Path, process::Stdio};

use alloy::primitives::U256;
use anyhow::{Context as _, ensure};
use serde_json::json;
use tidegate::{
    Tidegate,
    internals::api_key::{ApiKey, Scope},
};
use tidegate_fhevm_stand_ins::{
    coprocessor::{EUINT64, REJECTED, handles},
    fleet::{ANY, Fleet},
    front::Front,
    keys::Keys,
    kms::clear_value,
    network::{Network, NetworkOptions},
    target,
};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
};

use crate::database::Database;

/// After how many flows a node is killed, while a request of the next flow waits.
const BEFORE_KILL: usize = 2;

pub(crate) async fn run() -> anyhow::Result<()> {
    let keys = Keys::start(&target().join("fhevm-assets")).await?;
    let options = NetworkOptions { storage_url: keys.url().to_owned(), ..NetworkOptions::default() };
    let mut network = Network::start(&options).await?;
    network.coprocessor.reject(REJECTED);
    let wallets = network.chain.keys()[..1].to_vec();
    for wallet in &wallets {
        network.gateway.fund(&mut network.operator, wallet.address(), 100_000).await?;
    }
    let database = Database::start().await?;
    let program = std::env::current_exe()?.with_file_name("tidegate-fhevm");
    let fleet = Fleet::new(&program, &database.url, &network, &wallets).await?.with("TIDEGATE_FHEVM__KEYS", "required");
    let key = ApiKey::generate()?;
    let tidegate = Tidegate::connect(&database.url).await?;
    let scopes = [Scope::Submit, Scope::Admin];
    tidegate.store().key_create(&key, "the SDK", &scopes, None).await?;
    let mut nodes = [fleet.serve(ANY).await?, fleet.serve(ANY).await?];
    let _workers = [fleet.work(None)?, fleet.work(None)?];
    let urls = nodes.iter().filter_map(|node| node.url.clone());
    let front = Front::start(urls.collect()).await?;

    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/sdk/flows.mjs");
    let mut flows = Command::new("node")
        .arg(script)
        .arg(target().join("fhevm-sdk"))
        .arg(setup(&network, &front, &key)?)
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("cannot run node: run `make test-sdk`, which installs it")?;
    let mut lines = BufReader::new(flows.stdout.take().context("no output")?).lines();
    let (mut passed, mut killed) = (0, false);
    while let Some(line) = lines.next_line().await? {
        println!("{line}");
        passed += usize::from(line.starts_with("ok "));
        if passed == BEFORE_KILL && !killed && line == "progress queued" {
            nodes[0].kill().await?;
            killed = true;
            println!("one of two nodes is killed");
        }
    }
    ensure!(flows.wait().await?.success() && killed, "see above");
    Ok(())
}

/// What the script has to know.
fn setup(network: &Network, front: &Front, key: &ApiKey) -> anyhow::Result<String> {
    let (chain, host) = network.hosts.first().context("no host chain")?;
    let handle = handles(&vec![42].into(), host.acl, U256::from(chain.chain_id()), &[EUINT64])[0];
    let text = |address: alloy::primitives::Address| address.to_checksum(None);
    let setup = json!({
        "instance": {
            "relayerUrl": front.url().join("v2")?.as_str(), "network": chain.url().as_str(), "chainId": chain.chain_id(),
            "gatewayChainId": network.chain.chain_id(), "aclContractAddress": text(host.acl),
            "kmsContractAddress": text(host.kms_verifier), "inputVerifierContractAddress": text(host.input_verifier),
            "verifyingContractAddressDecryption": text(network.gateway.decryption),
            "verifyingContractAddressInputVerification": text(network.gateway.input_verification),
        },
        "handle": handle, "clearValue": clear_value(handle).to_string(), "rejectedUser": text(REJECTED),
        "key": key.expose(),
    });
    Ok(setup.to_string())
}
