//! What operators read and change of wallets.

use std::{collections::HashMap, time::Duration};

use alloy::primitives::{Address, B256};
use chrono::{DateTime, Utc};
use sqlx::{Row, postgres::PgRow};
use tidegate::request::RequestId;

use super::{Store, StoreError, limited, milliseconds, number, unsigned};
use crate::{
    body::BodyTransaction,
    checker::{ExpectedWallet, Signed},
};

/// How many nonces one statement reads: all at once would take longer than a statement may.
const NONCES: usize = 50_000;

/// A wallet, for operators.
#[derive(Clone, Debug)]
pub struct WalletOverview {
    /// Its number.
    pub id: i16,
    /// Its name.
    pub name: String,
    /// Its account.
    pub address: Address,
    /// `active`, `draining` or `off`.
    pub state: String,
    /// Why it is off.
    pub off_cause: Option<String>,
    /// Why it takes no new orders until it has funds.
    pub unfunded_cause: Option<String>,
    /// The first nonce that Tidegate has used.
    pub first_nonce: u64,
    /// The most transactions that may be signed and not mined.
    pub in_flight_max: u32,
    /// The next nonce.
    pub next_nonce: u64,
    /// How many of its transactions are signed and not mined.
    pub in_flight: i64,
    /// All transactions of lower nonces are final, lost or void.
    pub settled_nonce: u64,
    /// The greatest gas limit of its last transactions.
    pub gas_limit: Option<u64>,
    /// How long ago the lowest transaction that is not mined was signed; none: all are mined.
    pub unmined: Option<Duration>,
    /// The block of its first nonce, once that is mined.
    pub first_block: Option<u64>,
}

/// A nonce, for `resync`.
#[derive(Clone, Debug)]
pub(crate) struct ResyncSlot {
    pub(crate) state: String,
    pub(crate) hashes: Vec<B256>,
    pub(crate) signed_at: DateTime<Utc>,
}

impl Store {
    /// The wallets of a chain: `evm.wallet_overview`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn overview(&self, chain_id: u64) -> Result<Vec<WalletOverview>, StoreError> {
        let listed = sqlx::query("select * from evm.wallet_overview($1)").bind(number(chain_id));
        limited(listed.fetch_all(&self.pool)).await?.iter().map(overview).collect()
    }

    /// The wallets of a chain with all that was ever signed for them, for a check: `evm.wallet_attempts`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn expected(&self, chain_id: u64) -> Result<Vec<ExpectedWallet>, StoreError> {
        let mut expected = Vec::new();
        for wallet in self.overview(chain_id).await? {
            let mut signed = HashMap::new();
            for from in (wallet.first_nonce..wallet.next_nonce).step_by(NONCES) {
                let attempts = sqlx::query("select * from evm.wallet_attempts($1, $2, $3)")
                    .bind(wallet.id)
                    .bind(number(from))
                    .bind(number(from + NONCES as u64));
                for row in limited(attempts.fetch_all(&self.pool)).await? {
                    let hash =
                        B256::try_from(row.try_get::<&[u8], _>("hash")?).map_err(|_| StoreError::Value("hash"))?;
                    let order: Option<uuid::Uuid> = row.try_get("order_id")?;
                    signed.insert(
                        hash,
                        match row.try_get::<&str, _>("kind")? {
                            "filler" => Signed::Filler,
                            _ => Signed::Own(order.map(RequestId)),
                        },
                    );
                }
            }
            expected.push(ExpectedWallet {
                attempts: signed,
                name: wallet.name,
                address: wallet.address,
                first_nonce: wallet.first_nonce,
                first_block: wallet.first_block,
                next_nonce: wallet.next_nonce,
            });
        }
        Ok(expected)
    }

    /// `evm.wallet_turn`: whether the wallet had another state.
    pub(crate) async fn turn(&self, wallet: i16, state: &str, off_cause: Option<&str>) -> Result<bool, StoreError> {
        let turned = sqlx::query_scalar("select evm.wallet_turn($1, $2, $3)").bind(wallet).bind(state).bind(off_cause);
        limited(turned.fetch_one(&self.pool)).await
    }

    /// `evm.resync_slot`.
    pub(crate) async fn resync_slot(&self, wallet: i16, nonce: u64) -> Result<Option<ResyncSlot>, StoreError> {
        let slot = sqlx::query("select * from evm.resync_slot($1, $2)").bind(wallet).bind(number(nonce));
        let row = limited(slot.fetch_optional(&self.pool)).await?;
        let slot = row.map(|row| {
            let hashes: Vec<Vec<u8>> = row.try_get("hashes")?;
            let hashes = hashes.iter().map(|hash| B256::try_from(hash.as_slice()));
            Ok(ResyncSlot {
                state: row.try_get("state")?,
                hashes: hashes.collect::<Result<_, _>>().map_err(|_| StoreError::Value("hashes"))?,
                signed_at: row.try_get("signed_at")?,
            })
        });
        slot.transpose()
    }

    /// `evm.resync_insert`: whether the transaction is the wallet's at this nonce now.
    pub(crate) async fn resync_insert(
        &self,
        wallet: i16,
        nonce: u64,
        order: Option<RequestId>,
        transaction: &BodyTransaction,
    ) -> Result<bool, StoreError> {
        let to = transaction.to.unwrap_or_default();
        let inserted = sqlx::query_scalar("select evm.resync_insert($1, $2, $3, $4, $5, $6, $7, $8)")
            .bind(wallet)
            .bind(number(nonce))
            .bind(order.map(|order| order.0))
            .bind(to.as_slice())
            .bind(number(transaction.gas.to()))
            .bind(transaction.hash.as_slice())
            .bind(transaction.max_fee().to_string())
            .bind(transaction.tip().to_string());
        limited(inserted.fetch_one(&self.pool)).await
    }

    /// `evm.resync_lose`: whether the nonce was given up.
    pub(crate) async fn resync_lose(&self, wallet: i16, nonce: u64) -> Result<bool, StoreError> {
        let lost = sqlx::query_scalar("select evm.resync_lose($1, $2)").bind(wallet).bind(number(nonce));
        limited(lost.fetch_one(&self.pool)).await
    }

    /// `evm.resync_reopen`: whether a final transaction is open again.
    pub(crate) async fn resync_reopen(&self, wallet: i16, nonce: u64) -> Result<bool, StoreError> {
        let reopened = sqlx::query_scalar("select evm.resync_reopen($1, $2)").bind(wallet).bind(number(nonce));
        limited(reopened.fetch_one(&self.pool)).await
    }

    /// `evm.resync_end`: whether the wallet was off.
    pub(crate) async fn resync_end(&self, wallet: i16) -> Result<bool, StoreError> {
        let ended = sqlx::query_scalar("select evm.resync_end($1)").bind(wallet);
        limited(ended.fetch_one(&self.pool)).await
    }
}

fn overview(row: &PgRow) -> Result<WalletOverview, StoreError> {
    let address: &[u8] = row.try_get("address")?;
    let gas_limit: Option<i64> = row.try_get("gas_limit")?;
    let first_block: Option<i64> = row.try_get("first_block")?;
    Ok(WalletOverview {
        id: row.try_get("id")?,
        name: row.try_get("name")?,
        address: Address::try_from(address).map_err(|_| StoreError::Value("address"))?,
        state: row.try_get("state")?,
        off_cause: row.try_get("off_cause")?,
        unfunded_cause: row.try_get("unfunded_cause")?,
        first_nonce: unsigned(row, "first_nonce")?,
        in_flight_max: row.try_get::<i32, _>("in_flight_max")?.try_into().unwrap_or_default(),
        next_nonce: unsigned(row, "next_nonce")?,
        in_flight: row.try_get("in_flight")?,
        settled_nonce: unsigned(row, "settled_nonce")?,
        gas_limit: gas_limit.and_then(|limit| limit.try_into().ok()),
        unmined: row.try_get::<Option<i64>, _>("unmined_ms")?.map(milliseconds),
        first_block: first_block.and_then(|number| number.try_into().ok()),
    })
}
