//! A network, a database, wallets, and the relayer's tasks in this process: what the tests begin with.

use std::{fs, os::unix::fs::PermissionsExt, sync::Arc, time::Duration};

use alloy::{
    primitives::{Address, B256, U256},
    signers::local::PrivateKeySigner,
    sol_types::SolCall,
};
use chrono::Utc;
use serde_json::{Value, json};
use tempfile::TempDir;
use tidegate::{
    Outlook, Submitted, Tidegate,
    internals::database::{self, PoolSettings},
    request::{RequestId, Status},
};
use tidegate_evm::{
    checker::{self, Expected},
    store::Store,
    wallets,
};
use tidegate_fhevm::{
    chains::Chains,
    config::Config,
    kinds,
    request::{Family, Payload},
    store::Store as References,
    watch, work,
};
use tidegate_fhevm_stand_ins::{
    chain::{ChainOptions, Mining},
    coprocessor,
    network::{Network, NetworkOptions},
    rpc_proxy::RpcProxy,
    workload::{self, Work},
};
use tokio::runtime::Builder;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::support::TestDatabase;

/// How long a request may take to its end.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a scene is like.
pub struct Options {
    pub network: NetworkOptions,
    pub wallets: u8,
    /// Of the configuration, after those of the network: the names of variables without their prefix, and their values.
    pub keys: Vec<(&'static str, String)>,
}

impl Default for Options {
    fn default() -> Self {
        Self { network: NetworkOptions::default(), wallets: 1, keys: Vec::new() }
    }
}

impl Options {
    /// With a gateway chain that makes blocks so, and waits for so many confirmations.
    pub fn of_chain(mining: Mining, confirmations: u64) -> Self {
        let usual = NetworkOptions::default();
        Self {
            network: NetworkOptions { gateway: ChainOptions { mining, ..usual.gateway }, ..usual },
            keys: vec![("GATEWAY__CONFIRMATIONS", confirmations.to_string())],
            ..Self::default()
        }
    }
}

/// A network with a relayer, none of whose tasks runs.
pub struct Scene {
    pub database: TestDatabase,
    pub network: Network,
    /// In front of the gateway chain: the relayer uses it.
    pub proxy: RpcProxy,
    /// In front of the first host chain.
    pub host_proxy: RpcProxy,
    pub tidegate: Tidegate,
    pub wallets: Vec<Address>,
    pub config: Arc<Config>,
    user_threshold: usize,
    _directory: TempDir,
}

/// Tasks of a relayer. They are killed when this is dropped.
pub struct Running(#[expect(dead_code, reason = "kept for its drop")] DropGuard);

fn key(number: u8) -> PrivateKeySigner {
    PrivateKeySigner::from_slice(&[number + 1; 32]).unwrap()
}

impl Scene {
    pub async fn new() -> Self {
        Self::with(Options::default()).await
    }

    pub async fn with(options: Options) -> Self {
        let database = async {
            let database = TestDatabase::unlimited().await;
            let all = [tidegate_evm::migrations(), tidegate_fhevm::migrations()];
            tidegate::internals::schema::migrate_with(&database.url, &all).await.unwrap();
            kinds::init(&database.pool).await.unwrap();
            database
        };
        let (database, network) = tokio::join!(database, Network::start(&options.network));
        let mut network = network.unwrap();
        network.coprocessor.reject(coprocessor::REJECTED);
        let proxy = RpcProxy::start(network.chain.url(), 1).await.unwrap();
        let host_proxy = RpcProxy::start(network.hosts[0].0.url(), 2).await.unwrap();
        let directory = tempfile::tempdir().unwrap();
        let config = configuration(&network, &proxy, &host_proxy, &options, &directory);
        let chains = Chains::connect(&config).await.unwrap();
        let store = Store::new(database.pool.clone());
        let mut addresses = Vec::new();
        for number in 0..options.wallets {
            let address = key(number).address();
            network.chain.set_balance(address, U256::from(10).pow(U256::from(21))).await.unwrap();
            network.gateway.fund(&mut network.operator, address, 100_000).await.unwrap();
            wallets::adopt(&chains.gateway, &store, address, &format!("wallet-{number}"), 64).await.unwrap();
            addresses.push(address);
        }
        Self {
            tidegate: Tidegate::from_pool(database.pool.clone()),
            database,
            network,
            proxy,
            host_proxy,
            wallets: addresses,
            config: Arc::new(config),
            user_threshold: options.network.user_threshold,
            _directory: directory,
        }
    }

    pub async fn chains(&self) -> Chains {
        Chains::connect(&self.config).await.unwrap()
    }

    /// A worker and the watcher.
    pub fn relay(&self) -> Running {
        self.run("relay", async |tidegate, config, chains, stop| {
            let working = work::run(tidegate, config, chains, stop);
            tokio::try_join!(working, watch::run(tidegate, config, chains, stop)).map(drop)
        })
    }

    pub fn watch(&self) -> Running {
        self.run("watch", async |tidegate, config, chains, stop| watch::run(tidegate, config, chains, stop).await)
    }

    pub fn work(&self) -> Running {
        self.run("work", async |tidegate, config, chains, stop| work::run(tidegate, config, chains, stop).await)
    }

    /// Runs tasks on threads of this name and connections of their own, as a process does.
    fn run<F>(&self, name: &'static str, tasks: F) -> Running
    where
        F: AsyncFnOnce(&Tidegate, &Config, &Chains, &CancellationToken) -> anyhow::Result<()> + Send + 'static,
    {
        let (config, url) = (Arc::clone(&self.config), self.database.url.clone());
        let killed = CancellationToken::new();
        let running = Running(killed.clone().drop_guard());
        let thread = std::thread::Builder::new().name(name.to_owned());
        let running_tasks = move || {
            let runtime = Builder::new_multi_thread().worker_threads(1).thread_name(name).enable_all().build().unwrap();
            let tasks = async {
                let chains = Chains::connect(&config).await.unwrap();
                let settings = PoolSettings { connections_max: 20, ..PoolSettings::default() };
                let tidegate = Tidegate::from_pool(database::connect_lazily(&url, &settings).unwrap());
                tasks(&tidegate, &config, &chains, &CancellationToken::new()).await
            };
            match runtime.block_on(killed.run_until_cancelled(tasks)) {
                None => runtime.shutdown_background(),
                Some(ended) => panic!("the relayer has ended by itself: {ended:?}"),
            }
        };
        thread.spawn(running_tasks).unwrap();
        running
    }

    /// The request of a number, as the stand-ins make it.
    pub fn request(&self, number: u64) -> Work {
        workload::work(&self.network, number).unwrap()
    }

    pub async fn submit(&self, work: &Work) -> RequestId {
        let family = Family::ALL.into_iter().find(|family| family.path()[1..] == *work.path).unwrap();
        self.submit_body(family, &work.body).await
    }

    pub async fn submit_body(&self, family: Family, body: &Value) -> RequestId {
        let payload: Payload = family.parse(body.to_string().as_bytes(), Utc::now()).unwrap();
        match self.tidegate.submit(family.kind(), &payload).await.unwrap() {
            Submitted::Accepted(ticket) => ticket.id,
            other => panic!("{other:?}"),
        }
    }

    pub async fn ended(&self, id: RequestId) -> Outlook {
        match self.tidegate.wait(id, PATIENCE).await {
            Ok(ended) => ended,
            Err(error) => panic!("{error}\n{}", self.account(id).await),
        }
    }

    /// What is known of a request and its transaction.
    async fn account(&self, id: RequestId) -> String {
        let tables = "select jsonb_pretty(jsonb_build_object(
              'status', r.req_status, 'now', tidegate.clock(),
              'tx', (select jsonb_agg(to_jsonb(t) - 'calldata') from evm.tx as t where t.order_id = r.id),
              'attempts', (select jsonb_agg(to_jsonb(a) - 'raw') from evm.attempt as a
                join evm.tx as t on t.wallet = a.wallet and t.nonce = a.nonce where t.order_id = r.id),
              'references', (select jsonb_agg(to_jsonb(f)) from fhevm.reference as f where f.request_id = r.id),
              'wallets', (select jsonb_agg(to_jsonb(w)) from evm.wallet as w),
              'cursor', (select jsonb_agg(to_jsonb(c)) from evm.cursor as c)
            )) from tidegate.request as r where r.id = $1";
        let account = sqlx::query_scalar::<_, String>(tables).bind(id.0).fetch_one(&self.database.pool);
        account.await.unwrap()
    }

    /// The result of a request, as a poll shows it.
    pub async fn result(&self, id: RequestId) -> Value {
        let ended = self.ended(id).await;
        assert_eq!(ended.status, Status::Completed, "{:?}", ended.error);
        let mut response: Value = ended.response().unwrap();
        let Some(shares) = response.get_mut("shares") else {
            return response;
        };
        let mut shares: Vec<_> = shares.as_object().unwrap().values().cloned().collect();
        shares.sort_by_key(|share| share["index"].as_str().unwrap().parse::<U256>().unwrap());
        json!({ "result": shares })
    }

    /// The label that a request has failed with.
    pub async fn label(&self, id: RequestId) -> String {
        let ended = self.ended(id).await;
        let error = ended.error.unwrap_or_else(|| panic!("{:?}", ended.status));
        error.code.strip_prefix("label:").unwrap_or(&error.code).to_owned()
    }

    /// Compares a result with what the stand-ins have answered.
    pub async fn check_result(&self, work: &Work, id: RequestId) {
        let result = tidegate_fhevm_stand_ins::client::Ended::Succeeded(self.result(id).await);
        work.check(&result, self.user_threshold).unwrap();
    }

    /// Compares the chain with the requests.
    pub async fn check_chain(&self) {
        let chains = self.chains().await;
        let store = Store::new(self.database.pool.clone());
        let blocks = 0..=self.network.chain.block_number().await.unwrap();
        let requests = References::new(self.database.pool.clone()).expected(&chains.contracts, &blocks).await.unwrap();
        let wallets = store.expected(chains.gateway.id()).await.unwrap();
        let expected = Expected { wallets, requests, at_rest: true };
        let report = checker::check(&chains.gateway, &expected, blocks).await.unwrap();
        assert!(report.violations.is_empty(), "{report}");
    }

    /// Throws a switch of a contract.
    pub async fn switch<C: SolCall>(&mut self, contract: Address, call: &C) {
        self.network.operator.send(contract, call).await.unwrap();
        self.network.operator.mined().await.unwrap();
    }

    pub async fn count(&self, sql: &str) -> i64 {
        self.database.number(sql).await
    }
}

/// A handle of the host chain.
pub fn handle(chain: u64, seed: u8) -> B256 {
    let mut handle = B256::repeat_byte(seed);
    handle[22..30].copy_from_slice(&chain.to_be_bytes());
    handle[30..].copy_from_slice(&[5, 0]);
    handle
}

fn configuration(
    network: &Network,
    proxy: &RpcProxy,
    host_proxy: &RpcProxy,
    options: &Options,
    directory: &TempDir,
) -> Config {
    let (gateway, host) = (&network.gateway, &network.hosts[0].1);
    let mut keys = vec![
        ("GATEWAY__CHAIN_ID".to_owned(), network.chain.chain_id().to_string()),
        ("GATEWAY__HTTP".to_owned(), proxy.url().to_string()),
        ("GATEWAY__DECRYPTION".to_owned(), gateway.decryption.to_string()),
        ("GATEWAY__INPUT_VERIFICATION".to_owned(), gateway.input_verification.to_string()),
        ("GATEWAY__GATEWAY_CONFIG".to_owned(), gateway.config.to_string()),
        ("GATEWAY__FEE_TOKEN".to_owned(), gateway.token.to_string()),
        ("GATEWAY__PROTOCOL_PAYMENT".to_owned(), gateway.payment.to_string()),
        ("GATEWAY__POLL_MS".to_owned(), "100".to_owned()),
        ("KMS__CHAIN_ID".to_owned(), network.hosts[0].0.chain_id().to_string()),
        ("KMS__PROTOCOL_CONFIG".to_owned(), host.protocol_config.to_string()),
        ("KMS__KMS_GENERATION".to_owned(), host.kms_generation.to_string()),
        ("KMS__STATIC_THRESHOLD".to_owned(), options.network.user_threshold.to_string()),
    ];
    for (number, (chain, host)) in network.hosts.iter().enumerate() {
        let url = if number == 0 { host_proxy.url() } else { chain.url() };
        keys.extend([
            (format!("HOST_CHAINS__{number}__CHAIN_ID"), chain.chain_id().to_string()),
            (format!("HOST_CHAINS__{number}__HTTP"), url.to_string()),
            (format!("HOST_CHAINS__{number}__ACL"), host.acl.to_string()),
        ]);
    }
    for number in 0..options.wallets {
        let file = directory.path().join(format!("{number}.key"));
        fs::write(&file, alloy::hex::encode(key(number).to_bytes())).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        keys.extend([
            (format!("WALLETS__{number}__NAME"), format!("wallet-{number}")),
            (format!("WALLETS__{number}__KEY_FILE"), file.display().to_string()),
        ]);
    }
    keys.extend(options.keys.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    let variables = keys.into_iter().map(|(name, value)| (format!("TIDEGATE_FHEVM__{name}"), value));
    Config::load(None, variables).unwrap()
}
