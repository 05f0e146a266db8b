//! Databases with wallets, and claimed requests to order transactions for.

use std::{slice, sync::Arc, time::Duration};

use alloy::{
    consensus::{Signed, TxEip1559},
    primitives::{Address, Bytes},
    signers::local::PrivateKeySigner,
};
use futures_util::future::BoxFuture;
use sqlx::PgPool;
use tidegate::request::{RequestId, Stage};
use tidegate_evm::{
    Chain, LocalSigner, Order, Sender, SenderOptions, Signer, signer::SignError, store::Store, wallets,
};
use url::Url;

use crate::support::TestDatabase;

/// A database with the tables of wallets, and without limits.
pub async fn database() -> TestDatabase {
    let database = TestDatabase::unlimited().await;
    tidegate::internals::schema::migrate_with(&database.url, &[tidegate_evm::migrations()]).await.unwrap();
    database
}

/// The contract that orders call, where no contract is needed.
pub const CONTRACT: Address = Address::repeat_byte(0xcc);

/// The same key in each run.
pub fn key(number: u8) -> PrivateKeySigner {
    PrivateKeySigner::from_slice(&[number; 32]).unwrap()
}

/// A wallet whose key is [`key`].
pub async fn adopt(database: &TestDatabase, chain: &Chain, number: u8, in_flight_max: u32) -> Address {
    let address = key(number).address();
    let store = Store::new(database.pool.clone());
    wallets::adopt(chain, &store, address, &format!("wallet-{number}"), in_flight_max).await.unwrap();
    address
}

/// The chain of a node.
pub async fn chain(url: &Url) -> Chain {
    Chain::connect(super::node::CHAIN, slice::from_ref(url)).await.unwrap()
}

/// A sender with the keys of these numbers, which asks for receipts often.
pub fn sender(chain: &Chain, pool: &PgPool, keys: &[u8]) -> Sender {
    let signer = |number: &u8| -> Arc<dyn Signer> { Arc::new(LocalSigner::from(key(*number))) };
    sender_with(chain, pool, keys.iter().map(signer).collect())
}

pub fn sender_with(chain: &Chain, pool: &PgPool, signers: Vec<Arc<dyn Signer>>) -> Sender {
    Sender::new(chain.clone(), pool.clone(), signers, options())
}

pub fn options() -> SenderOptions {
    let mut options = SenderOptions::default();
    options.receipts_every = Duration::from_millis(20);
    options.patience = Duration::from_secs(30);
    options
}

/// As many claimed requests, as orders.
pub async fn orders(database: &TestDatabase, count: usize) -> Vec<Order> {
    let sql = "select count(*) from tidegate.submit_batch('direct', array_fill('{}'::jsonb, array[$1]))";
    sqlx::query(sql).bind(i32::try_from(count).unwrap()).execute(&database.pool).await.unwrap();
    let claimed = database.store.claim(Stage::Tx, "tx", "worker", count, Duration::from_secs(600), None).await.unwrap();
    assert_eq!(claimed.len(), count);
    let order = |claimed: &tidegate::internals::store::Claimed| Order {
        request: claimed.request.id,
        lease: claimed.lease,
        to: CONTRACT,
        calldata: Bytes::copy_from_slice(claimed.request.id.0.as_bytes()),
    };
    claimed.iter().map(order).collect()
}

/// The nonces that were taken, in their order, and for whom.
pub async fn taken(database: &TestDatabase) -> Vec<(i64, RequestId)> {
    let rows: Vec<(i64, uuid::Uuid)> = sqlx::query_as("select nonce, order_id from evm.tx order by wallet, nonce")
        .fetch_all(&database.pool)
        .await
        .unwrap();
    rows.into_iter().map(|(nonce, order)| (nonce, RequestId(order))).collect()
}

/// A key that asks a closure before each signature.
pub struct Asking<F>(LocalSigner, F);

pub fn asking<F>(number: u8, before: F) -> Asking<F>
where
    F: Fn(u64) -> BoxFuture<'static, Result<(), SignError>> + Send + Sync + 'static,
{
    Asking(key(number).into(), before)
}

impl<F> Signer for Asking<F>
where
    F: Fn(u64) -> BoxFuture<'static, Result<(), SignError>> + Send + Sync + 'static,
{
    fn address(&self) -> Address {
        self.0.address()
    }

    fn sign(&self, transaction: TxEip1559) -> BoxFuture<'_, Result<Signed<TxEip1559>, SignError>> {
        let asked = self.1(transaction.nonce);
        Box::pin(async move {
            asked.await?;
            self.0.sign(transaction).await
        })
    }
}
