//! A chain, a database and a wallet: what the tests of the keeper begin with.

use std::{sync::Arc, time::Duration};

use alloy::{
    eips::BlockNumberOrTag,
    primitives::{Address, B256, Bytes, U64, U256},
    sol_types::SolCall,
};
use futures_util::future::join_all;
use serde_json::Value;
use sqlx::Row;
use tidegate::request::RequestId;
use tidegate_evm::{
    Chain, LocalSigner, Order, Sender, Sending,
    checker::{self, Expected, ExpectedRequest, Report, Sends},
    fees::FeeBounds,
    keeper::{Keeper, KeeperOptions, funds::Funds},
    store::Store,
};
use tidegate_fhevm_stand_ins::{
    abi::Counter,
    artefacts::artefact,
    chain::{Anvil, ChainOptions, Mining},
    rpc_proxy::RpcProxy,
};
use tokio_util::task::AbortOnDropHandle;
use url::Url;

use super::{
    counter,
    orders::{self, CONTRACT, key},
};
use crate::support::TestDatabase;

/// What a test's chain has: a counter at [`CONTRACT`], and a wallet with the key 1.
pub struct Scene {
    pub database: TestDatabase,
    pub anvil: Anvil,
    pub proxy: RpcProxy,
    /// Through the proxy.
    pub chain: Chain,
    pub wallet: Address,
}

/// Small enough for an account of a test.
pub fn options() -> KeeperOptions {
    KeeperOptions { funds: Funds { rate: 1, ..Funds::default() }, ..KeeperOptions::default() }
}

impl Scene {
    pub async fn new(mining: Mining) -> Self {
        let anvil = Anvil::start(ChainOptions { mining, ..ChainOptions::default() });
        let (database, anvil) = tokio::join!(orders::database(), anvil);
        let anvil = anvil.unwrap();
        // What its constructor returns is its code.
        let creation = serde_json::json!({ "data": artefact("Counter").unwrap().bytecode });
        let code = anvil.rpc().call("eth_call", (creation,)).await.unwrap();
        anvil.set_code(CONTRACT, code).await.unwrap();
        let ether = U256::from(10).pow(U256::from(21));
        anvil.set_balance(key(1).address(), ether).await.unwrap();
        let proxy = RpcProxy::start(anvil.url(), 7).await.unwrap();
        let chain = Chain::connect(anvil.chain_id(), &[proxy.url().clone()]).await.unwrap();
        let wallet = orders::adopt(&database, &chain, 1, 64).await;
        Self { database, anvil, proxy, chain, wallet }
    }

    pub fn store(&self) -> Store {
        Store::new(self.database.pool.clone())
    }

    pub async fn keeper(&self) -> Keeper {
        self.keeper_with(self.chain.clone(), options()).await
    }

    pub async fn keeper_with(&self, chain: Chain, options: KeeperOptions) -> Keeper {
        let signer = Arc::new(LocalSigner::from(key(1)));
        Keeper::of(chain, self.store(), signer, options).await.unwrap().unwrap()
    }

    /// The chain without the proxy, by fees up to this many wei.
    pub async fn direct(&self, cap: u128) -> Chain {
        let urls: [Url; 1] = [self.anvil.url().clone()];
        let bounds = FeeBounds { cap, ..FeeBounds::default() };
        Chain::connect(self.anvil.chain_id(), &urls).await.unwrap().with_fee_bounds(bounds)
    }

    pub fn sender(&self) -> Sender {
        orders::sender(&self.chain, &self.database.pool, &[1])
    }

    /// As many claimed requests, as orders to count them.
    pub async fn orders(&self, count: usize) -> Vec<Order> {
        let mut orders = orders::orders(&self.database, count).await;
        for order in &mut orders {
            order.calldata = counter::count(order.request);
        }
        orders
    }

    /// Sends orders in the background; returns once each has a nonce.
    pub async fn begin(&self, orders: &[Order]) -> Vec<AbortOnDropHandle<Sending>> {
        let sender = self.sender();
        let sends = orders.iter().cloned().map(|order| {
            let sender = sender.clone();
            AbortOnDropHandle::new(tokio::spawn(async move { sender.send(&order).await }))
        });
        let sends = sends.collect();
        let wanted = i64::try_from(orders.len()).unwrap();
        let ids: Vec<_> = orders.iter().map(|order| order.request.0).collect();
        crate::support::eventually("each order was broadcast", || async {
            let broadcast = "select count(*) from evm.tx as t join evm.attempt as a using (wallet, nonce)
                             where t.order_id = any($1) and a.answer is not null";
            let count = sqlx::query_scalar::<_, i64>(broadcast).bind(&ids).fetch_one(&self.database.pool).await;
            count.unwrap() >= wanted
        })
        .await;
        sends
    }

    /// Ends a request whatever its worker does, as a deadline or an operator would.
    pub async fn end(&self, request: RequestId) {
        self.database.execute(&format!("select tidegate.fail_request('{request}', 'a test ends it')")).await;
    }

    /// Moves the database's clock, which [`TestDatabase::stop_clock`] has stopped.
    pub async fn later(&self, by: Duration) {
        let sql = "update public.test_clock set at = at + $1";
        sqlx::query(sql).bind(by).execute(&self.database.pool).await.unwrap();
    }

    /// How many versions each nonce has, in their order.
    pub async fn versions(&self) -> Vec<i64> {
        let sql = "select count(*) from evm.attempt group by nonce order by nonce";
        sqlx::query_scalar(sql).fetch_all(&self.database.pool).await.unwrap()
    }

    /// The states of the nonces, in their order.
    pub async fn states(&self) -> Vec<String> {
        let sql = "select state from evm.tx order by nonce";
        sqlx::query_scalar(sql).fetch_all(&self.database.pool).await.unwrap()
    }

    /// The state of the wallet, and why it is so.
    pub async fn state(&self) -> (String, Option<String>) {
        let sql = "select state, coalesce(off_cause, unfunded_cause) from evm.wallet";
        sqlx::query_as(sql).fetch_one(&self.database.pool).await.unwrap()
    }

    /// The transactions of the wallet on the chain: mined, and with those that wait.
    pub async fn counts(&self) -> (u64, u64) {
        let count = async |at: &str| {
            let count: U64 = self.anvil.rpc().call("eth_getTransactionCount", (self.wallet, at)).await.unwrap();
            count.to()
        };
        (count("latest").await, count("pending").await)
    }

    /// The signed bytes of a version.
    pub async fn raw(&self, nonce: i64, n: i16) -> Bytes {
        let raw: Vec<u8> = sqlx::query_scalar("select raw from evm.attempt where nonce = $1 and n = $2")
            .bind(nonce)
            .bind(n)
            .fetch_one(&self.database.pool)
            .await
            .unwrap();
        raw.into()
    }

    /// Compares the whole chain with the requests of the database: each completed one has one transaction, each other one
    /// what `sends` says by its status.
    pub async fn check(&self, at_rest: bool, sends: impl Fn(&str) -> Sends) -> Report {
        let rows = sqlx::query("select id, req_status::text as status from tidegate.request");
        let rows = rows.fetch_all(&self.database.pool).await.unwrap();
        let requests = rows.iter().map(|row| {
            let id = RequestId(row.get("id"));
            let status: &str = row.get("status");
            ExpectedRequest {
                id,
                to: CONTRACT,
                calldata: counter::count(id),
                sends: if status == "completed" { Sends::One } else { sends(status) },
            }
        });
        let expected = Expected {
            wallets: self.store().expected(self.anvil.chain_id()).await.unwrap(),
            requests: requests.collect(),
            at_rest,
        };
        let head = self.anvil.block_number().await.unwrap();
        let chain = self.direct(u128::MAX).await;
        checker::check(&chain, &expected, 0..=head).await.unwrap()
    }

    /// As [`check`](Self::check), of a scene at rest without violations.
    pub async fn assert_sound(&self) -> Report {
        let report = self.check(true, |_| Sends::AtMostOne).await;
        assert_eq!(report.violations, [], "{report}");
        println!("{report}");
        report
    }

    /// How often the chain has counted a request.
    pub async fn counted(&self, request: RequestId) -> u64 {
        let input = Counter::countsCall { order: counter::name(request) };
        let call = tidegate_evm::CallRequest::default().to(CONTRACT).input(Bytes::from(input.abi_encode()).into());
        let answer = self.chain.call(&call, BlockNumberOrTag::Latest).await.unwrap();
        U256::from_be_slice(&answer).to()
    }

    /// Sends a transaction of the wallet past Tidegate.
    pub async fn foreign(&self, nonce: u64, to: Address, input: Bytes) -> B256 {
        self.anvil.rpc().call::<Value>("anvil_impersonateAccount", (self.wallet,)).await.unwrap();
        let transaction = alloy::rpc::types::TransactionRequest::default()
            .from(self.wallet)
            .to(to)
            .nonce(nonce)
            .input(input.into())
            .gas_limit(200_000)
            .max_fee_per_gas(100_000_000_000)
            .max_priority_fee_per_gas(10_000_000_000);
        self.anvil.send(&transaction).await.unwrap()
    }
}

/// All outcomes.
pub async fn outcomes(sends: Vec<AbortOnDropHandle<Sending>>) -> Vec<Sending> {
    join_all(sends).await.into_iter().map(Result::unwrap).collect()
}
