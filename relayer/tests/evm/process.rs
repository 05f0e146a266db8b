//! A worker in a process of its own, which a test can lose: this test program, started again for one test.

use std::{
    env,
    process::{Child, Command, ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use alloy::primitives::Address;
use futures_util::future::join_all;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::PgPool;
use tidegate::{
    Stages, Tidegate,
    internals::database::{self, PoolSettings},
    request::{Request, RequestError},
    stage::{Found, Receipt, Sent, Transact},
};
use tidegate_evm::{
    Chain, Finding, LocalSigner, Mined, Order, Sender, Sending, Signer,
    keeper::{Keeper, KeeperOptions},
    store::Store,
};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::{
    counter,
    orders::{key, options},
};

/// The variable that makes the test below a worker.
const SETUP: &str = "EVM_TEST_WORKER";

/// The variable that names the step at which a process ends itself.
const FAILPOINT: &str = "TIDEGATE_EVM_FAILPOINT";

/// What a worker works with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setup {
    pub database: String,
    /// The endpoints of the chain.
    pub endpoints: Vec<String>,
    pub contract: Address,
    /// The numbers of its keys.
    pub keys: Vec<u8>,
    pub role: Role,
}

/// What a process does.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Role {
    /// Orders transactions for requests.
    Work,
    /// Keeps the wallets.
    Keep,
}

/// A worker. It is killed when this is dropped, and ends when this process does.
pub struct Process(Child);

impl Process {
    /// Starts a worker that works until it is killed, or reaches a failpoint.
    pub fn start(setup: &Setup, failpoint: Option<&str>) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command
            .args(["--exact", "process::a_worker_when_it_is_started_as_one", "--nocapture"])
            .env(SETUP, serde_json::to_string(setup).unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if let Some(failpoint) = failpoint {
            command.env(FAILPOINT, failpoint);
        }
        Self(command.spawn().unwrap())
    }

    /// Its end, if it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Counts requests.
struct Count {
    sender: Sender,
    contract: Address,
}

fn receipt(mined: &Mined) -> Receipt {
    Receipt { reference: Some(mined.hash.to_string()), response: Some(json!({ "block": mined.block_number }).into()) }
}

impl Transact for Count {
    type Payload = Value;

    async fn send(&self, request: &Request<Value>) -> Sent {
        let order = Order {
            request: request.id,
            lease: request.lease(),
            to: self.contract,
            calldata: counter::count(request.id),
        };
        match self.sender.send(&order).await {
            Sending::Mined(mined) => Sent::Receipt(receipt(&mined)),
            Sending::Reverted(revert) => Sent::rejected("reverted", revert.data.to_string()),
            Sending::TooLarge => Sent::rejected("too_large", "no endpoint takes it"),
            Sending::Gas => Sent::rejected("gas", "no block takes it"),
            Sending::Waiting(cause) => Sent::retry("waiting", cause.to_string()),
            Sending::Ended => Sent::retry("ended", "the lease is not held"),
        }
    }

    async fn find_receipt(&self, request: &Request<Value>) -> Result<Found, RequestError> {
        let found = self.sender.find(request.id).await;
        let found = found.map_err(|error| RequestError::new("unknown", error.to_string(), true))?;
        Ok(match found {
            Finding::Mined(mined) => Found::Receipt(receipt(&mined)),
            Finding::Open => Found::Nothing,
            Finding::Never => Found::Never,
        })
    }
}

async fn run(setup: Setup) {
    let pool = database::connect(&setup.database, &PoolSettings::default()).await.unwrap();
    let endpoints: Vec<Url> = setup.endpoints.iter().map(|url| url.parse().unwrap()).collect();
    let chain = Chain::connect(super::node::CHAIN, &endpoints).await.unwrap();
    let signer = |number: &u8| -> Arc<dyn Signer> { Arc::new(LocalSigner::from(key(*number))) };
    let signers: Vec<_> = setup.keys.iter().map(signer).collect();
    match setup.role {
        Role::Work => work(pool, chain, signers, setup.contract).await,
        Role::Keep => drop(join_all(signers.into_iter().map(|signer| keep(pool.clone(), chain.clone(), signer))).await),
    }
}

async fn work(pool: PgPool, chain: Chain, signers: Vec<Arc<dyn Signer>>, contract: Address) {
    let sender = Sender::new(chain, pool.clone(), signers, options());
    let stages = Stages::new().transact("direct", Count { sender, contract });
    // Two fill a wallet, but one that is lost at a failpoint takes few requests with it.
    let places = if env::var_os(FAILPOINT).is_some() { 16 } else { 32 };
    let worker = Tidegate::from_pool(pool).worker(stages).lease(Duration::from_secs(5)).concurrency(places);
    let _running = worker.start().await.unwrap();
    std::future::pending::<()>().await;
}

async fn keep(pool: PgPool, chain: Chain, signer: Arc<dyn Signer>) {
    let mut options = KeeperOptions::default();
    options.funds.rate = 1;
    let keeper = Keeper::of(chain, Store::new(pool.clone()), signer, options).await.unwrap().unwrap();
    let tidegate = Tidegate::from_pool(pool);
    keeper.keep(&tidegate, CancellationToken::new()).await.unwrap();
}

/// No test, but the body of [`Process`].
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_when_it_is_started_as_one() {
    if let Ok(setup) = env::var(SETUP) {
        std::thread::spawn(|| {
            std::io::read_to_string(std::io::stdin()).ok();
            std::process::exit(1);
        });
        run(serde_json::from_str(&setup).unwrap()).await;
    }
}
