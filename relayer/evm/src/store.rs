//! The tables of schema `evm`, through their functions; no other code of this crate runs SQL on wallets and
//! transactions.
//!
//! The database decides, these methods report: their callers read the counts and fates that come back.

mod allocation;
pub(crate) mod cursor;
mod keeper;
mod operations;

use std::time::Duration;

use alloy::{
    hex,
    primitives::{Address, B256, Bytes},
};
use sqlx::{PgPool, Row, postgres::PgRow};
use tidegate::request::RequestId;

pub(crate) use self::{
    allocation::{Allocation, AllocationError, Fate, SignedOrder},
    cursor::Cursor,
    keeper::{KeptWallet, OpenSlot, Version},
    operations::ResyncSlot,
};
pub use self::{cursor::BlockId, operations::WalletOverview};

/// How long a statement may take. A server that cannot be reached any more cannot end it.
const TIME_LIMIT: Duration = Duration::from_secs(20);

/// The wallets and their transactions.
#[derive(Clone, Debug)]
pub struct Store {
    pool: PgPool,
}

/// Why a statement has no result.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database refused it or cannot be reached.
    #[error(transparent)]
    Database(#[from] sqlx::Error),
    /// No answer came.
    #[error("no answer within {} s", TIME_LIMIT.as_secs())]
    Late,
    /// A row has a value that no function of this crate writes.
    #[error("column {0} has a value that it must not have")]
    Value(&'static str),
}

/// A wallet, and its nonces as they stand.
#[derive(Clone, Debug)]
pub struct Wallet {
    /// Its number.
    pub id: i16,
    /// Its account.
    pub address: Address,
    /// Its name.
    pub name: String,
    /// The most transactions that may be signed and not mined.
    pub in_flight_max: i64,
    /// The next nonce.
    pub next_nonce: u64,
    /// How many of its transactions are signed and not mined.
    pub in_flight: i64,
    /// Why it takes no new orders: its state, `copied`, `unfunded`, `refused`; none: it takes them.
    pub refusal: Option<String>,
    /// How long its lowest transaction that is not mined has been signed without being sent.
    pub hole: Option<Duration>,
}

/// The live transaction of an order.
#[derive(Clone)]
pub struct Slot {
    /// The request.
    pub order: RequestId,
    /// The number of the wallet.
    pub wallet: i16,
    /// The wallet's name.
    pub wallet_name: String,
    /// The wallet's account.
    pub address: Address,
    /// Its nonce.
    pub nonce: u64,
    /// `signed`, `sent`, `mined` or `final`.
    pub state: String,
    /// The most gas that it may use.
    pub gas_limit: u64,
    /// Its signed versions, the first one first.
    pub attempts: Vec<Attempt>,
    /// How long ago the newest version was sent, or signed if it was not sent.
    pub age: Duration,
    /// The newest version, if it was asked for and the transaction is not mined.
    pub raw: Option<Bytes>,
}

/// A signed version of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Its hash.
    pub hash: B256,
    /// Whether it has the order's call; a filler only uses the nonce.
    pub is_own: bool,
    /// What an endpoint answered when it was last sent.
    pub answer: Option<String>,
}

/// A receipt to record.
#[derive(Clone, Copy, Debug)]
pub struct NotedReceipt {
    /// The hash of the transaction.
    pub hash: B256,
    /// The number of its block.
    pub block_number: u64,
    /// The hash of its block.
    pub block_hash: B256,
    /// Whether it succeeded.
    pub succeeded: bool,
}

/// Runs a statement within the time limit.
async fn limited<T>(answer: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, StoreError> {
    Ok(tokio::time::timeout(TIME_LIMIT, answer).await.map_err(|_| StoreError::Late)??)
}

/// A nonce or block number as PostgreSQL has it.
fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

impl Store {
    /// The wallets of a database that is migrated.
    #[must_use]
    pub fn new(pool: PgPool) -> Self {
        Self { pool }
    }

    /// Adopts an account as a wallet, from this nonce on: `evm.wallet_adopt`. None when it is one already, or the name is
    /// taken.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn adopt(
        &self,
        chain_id: u64,
        address: Address,
        name: &str,
        first_nonce: u64,
        in_flight_max: u32,
    ) -> Result<Option<i16>, StoreError> {
        let adopted = sqlx::query_scalar("select evm.wallet_adopt($1, $2, $3, $4, $5)")
            .bind(number(chain_id))
            .bind(address.as_slice())
            .bind(name)
            .bind(number(first_nonce))
            .bind(i32::try_from(in_flight_max).unwrap_or(i32::MAX));
        limited(adopted.fetch_one(&self.pool)).await
    }

    /// The wallets of a chain with these addresses: `evm.wallet_list`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn wallets(&self, chain_id: u64, addresses: &[Address]) -> Result<Vec<Wallet>, StoreError> {
        let addresses: Vec<&[u8]> = addresses.iter().map(|address| address.as_slice()).collect();
        let listed = sqlx::query("select * from evm.wallet_list($1, $2)").bind(number(chain_id)).bind(addresses);
        let rows = limited(listed.fetch_all(&self.pool)).await?;
        rows.iter().map(wallet).collect()
    }

    /// Stops new orders of a wallet until it has funds: `evm.wallet_unfund`. Returns whether it took them before.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn unfund(&self, wallet: i16, cause: &str) -> Result<bool, StoreError> {
        let unfunded = sqlx::query_scalar("select evm.wallet_unfund($1, $2)").bind(wallet).bind(cause);
        limited(unfunded.fetch_one(&self.pool)).await
    }

    /// The live transactions of these orders: `evm.slots`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn slots(&self, orders: &[RequestId], with_raw: bool) -> Result<Vec<Slot>, StoreError> {
        let ids: Vec<_> = orders.iter().map(|order| order.0).collect();
        let slots = sqlx::query(SLOTS).bind(ids).bind(with_raw);
        limited(slots.fetch_all(&self.pool)).await?.iter().map(slot).collect()
    }

    /// Records what was answered to the sending of signed transactions: `evm.note_sent`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn note_sent(&self, answers: &[(B256, &str)]) -> Result<i64, StoreError> {
        let (hashes, answers): (Vec<&[u8]>, Vec<_>) =
            answers.iter().map(|(hash, word)| (hash.as_slice(), *word)).unzip();
        let noted = sqlx::query_scalar("select evm.note_sent($1, $2)").bind(hashes).bind(answers);
        limited(noted.fetch_one(&self.pool)).await
    }

    /// Records receipts: `evm.note_mined`. Returns how many changed something.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn note_mined(&self, receipts: &[NotedReceipt]) -> Result<i64, StoreError> {
        let hashes: Vec<&[u8]> = receipts.iter().map(|receipt| receipt.hash.as_slice()).collect();
        let numbers: Vec<_> = receipts.iter().map(|receipt| number(receipt.block_number)).collect();
        let blocks: Vec<&[u8]> = receipts.iter().map(|receipt| receipt.block_hash.as_slice()).collect();
        let statuses: Vec<_> = receipts.iter().map(|receipt| i16::from(receipt.succeeded)).collect();
        let noted = sqlx::query_scalar("select evm.note_mined($1, $2, $3, $4)")
            .bind(hashes)
            .bind(numbers)
            .bind(blocks)
            .bind(statuses);
        limited(noted.fetch_one(&self.pool)).await
    }
}

const SLOTS: &str = "select * from evm.slots($1, $2)";

fn unsigned(row: &PgRow, column: &'static str) -> Result<u64, StoreError> {
    u64::try_from(row.try_get::<i64, _>(column)?).map_err(|_| StoreError::Value(column))
}

fn milliseconds(value: i64) -> Duration {
    Duration::from_millis(value.try_into().unwrap_or_default())
}

fn address(row: &PgRow) -> Result<Address, StoreError> {
    let bytes: Vec<u8> = row.try_get("address")?;
    Address::try_from(bytes.as_slice()).map_err(|_| StoreError::Value("address"))
}

fn wallet(row: &PgRow) -> Result<Wallet, StoreError> {
    let hole: Option<f64> = row.try_get("hole_seconds")?;
    Ok(Wallet {
        id: row.try_get("id")?,
        address: address(row)?,
        name: row.try_get("name")?,
        in_flight_max: row.try_get::<i32, _>("in_flight_max")?.into(),
        next_nonce: unsigned(row, "next_nonce")?,
        in_flight: row.try_get("in_flight")?,
        refusal: row.try_get("refusal")?,
        hole: hole.map(|seconds| Duration::from_secs_f64(seconds.max(0.0))),
    })
}

fn slot(row: &PgRow) -> Result<Slot, StoreError> {
    let hashes: Vec<Vec<u8>> = row.try_get("hashes")?;
    let kinds: Vec<String> = row.try_get("kinds")?;
    let answers: Vec<Option<String>> = row.try_get("answers")?;
    let attempts = hashes.iter().zip(&kinds).zip(answers).map(|((hash, kind), answer)| {
        Ok(Attempt {
            hash: B256::try_from(hash.as_slice()).map_err(|_| StoreError::Value("hash"))?,
            is_own: kind == "own",
            answer,
        })
    });
    let age: i64 = row.try_get("age_ms")?;
    Ok(Slot {
        order: RequestId(row.try_get("order_id")?),
        wallet: row.try_get("wallet")?,
        wallet_name: row.try_get("wallet_name")?,
        address: address(row)?,
        nonce: unsigned(row, "nonce")?,
        state: row.try_get("state")?,
        gas_limit: unsigned(row, "gas_limit")?,
        attempts: attempts.collect::<Result<_, StoreError>>()?,
        age: Duration::from_millis(age.try_into().unwrap_or_default()),
        raw: row.try_get::<Option<Vec<u8>>, _>("raw")?.map(Bytes::from),
    })
}

impl Slot {
    /// The hash of the newest version.
    #[must_use]
    pub fn newest(&self) -> Option<B256> {
        self.attempts.last().map(|attempt| attempt.hash)
    }
}

/// Signed bytes are not shown.
impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot")
            .field("order", &self.order)
            .field("wallet", &self.wallet)
            .field("nonce", &self.nonce)
            .field("state", &self.state)
            .field("newest", &self.newest().map(hex::encode_prefixed))
            .finish_non_exhaustive()
    }
}
