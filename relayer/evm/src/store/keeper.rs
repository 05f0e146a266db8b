//! What the keeper of a wallet reads and writes. Each write names its epoch, and does nothing under an older one.

use std::time::Duration;

use alloy::primitives::{B256, Bytes};
use chrono::{DateTime, Utc};
use sqlx::{Row, postgres::PgRow};

use super::{Store, StoreError, limited, milliseconds, number, unsigned};
use crate::body::BodyTransaction;

/// A wallet as its keeper sees it.
#[derive(Clone, Debug)]
pub(crate) struct KeptWallet {
    /// `active`, `draining` or `off`.
    pub(crate) state: String,
    /// The most transactions that may be signed and not mined.
    pub(crate) in_flight_max: u32,
    /// The next nonce.
    pub(crate) next_nonce: u64,
    /// All transactions of lower nonces are final, lost or void.
    pub(crate) settled_nonce: u64,
    /// Whether this is another PostgreSQL cluster than the one that adopted it, or another timeline of it.
    pub(crate) copied: bool,
    /// The greatest gas limit of its last transactions.
    pub(crate) gas_limit: Option<u64>,
    /// Whether the transaction of `settled_nonce` is not mined.
    pub(crate) is_open: bool,
    /// When it was read, by the database's clock.
    pub(crate) at: DateTime<Utc>,
}

/// A transaction that is signed and not mined.
#[derive(Clone, Debug)]
pub(crate) struct OpenSlot {
    pub(crate) nonce: u64,
    /// Whether an endpoint took a version of it.
    pub(crate) is_sent: bool,
    pub(crate) signed_at: DateTime<Utc>,
    /// All versions, the first one first.
    pub(crate) hashes: Vec<B256>,
    /// The number of the newest version.
    pub(crate) n: i16,
    /// Whether the newest version only uses the nonce up.
    pub(crate) is_filler: bool,
    pub(crate) max_fee: u128,
    pub(crate) tip: u128,
    /// What an endpoint answered to the newest version.
    pub(crate) answer: Option<String>,
    /// How long ago the newest version was sent, or signed if it was not sent.
    pub(crate) age: Duration,
    /// For how long the nonce has only to be used up, if so.
    pub(crate) ended: Option<Duration>,
}

/// A transaction in a block that is final now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unsettled {
    pub(crate) nonce: u64,
    /// Whether it is known to be final: the last one that is.
    pub(crate) is_settled: bool,
    pub(crate) hash: B256,
    pub(crate) block_hash: B256,
}

/// A newer version of a transaction.
pub(crate) struct Version {
    pub(crate) nonce: u64,
    pub(crate) n: i16,
    pub(crate) is_filler: bool,
    pub(crate) hash: B256,
    pub(crate) raw: Bytes,
    pub(crate) max_fee: u128,
    pub(crate) tip: u128,
}

impl Store {
    /// `evm.keeper_begin`: whether this epoch keeps the wallet now.
    pub(crate) async fn keeper_begin(&self, wallet: i16, epoch: i64) -> Result<bool, StoreError> {
        let begun = sqlx::query_scalar::<_, Option<i64>>("select evm.keeper_begin($1, $2)").bind(wallet).bind(epoch);
        Ok(limited(begun.fetch_one(&self.pool)).await?.is_some())
    }

    /// `evm.keeper_wallet`: none when another epoch keeps it.
    pub(crate) async fn kept_wallet(&self, wallet: i16, epoch: i64) -> Result<Option<KeptWallet>, StoreError> {
        let kept = sqlx::query("select * from evm.keeper_wallet($1, $2)").bind(wallet).bind(epoch);
        let row = limited(kept.fetch_optional(&self.pool)).await?;
        let wallet = row.map(|row| {
            let gas_limit: Option<i64> = row.try_get("gas_limit")?;
            Ok(KeptWallet {
                state: row.try_get("state")?,
                in_flight_max: row.try_get::<i32, _>("in_flight_max")?.try_into().unwrap_or_default(),
                next_nonce: unsigned(&row, "next_nonce")?,
                settled_nonce: unsigned(&row, "settled_nonce")?,
                copied: row.try_get("copied")?,
                gas_limit: gas_limit.and_then(|limit| limit.try_into().ok()),
                is_open: row.try_get("is_open")?,
                at: row.try_get("at")?,
            })
        });
        wallet.transpose()
    }

    /// `evm.keeper_open`.
    pub(crate) async fn open_slots(&self, wallet: i16, from: u64) -> Result<Vec<OpenSlot>, StoreError> {
        let open = sqlx::query("select * from evm.keeper_open($1, $2)").bind(wallet).bind(number(from));
        limited(open.fetch_all(&self.pool)).await?.iter().map(open_slot).collect()
    }

    /// `evm.keeper_raw`.
    pub(crate) async fn newest_raw(&self, wallet: i16, nonces: &[u64]) -> Result<Vec<(u64, B256, Bytes)>, StoreError> {
        let nonces: Vec<_> = nonces.iter().copied().map(number).collect();
        let raw = sqlx::query("select * from evm.keeper_raw($1, $2)").bind(wallet).bind(nonces);
        let rows = limited(raw.fetch_all(&self.pool)).await?;
        let versions = rows.iter().map(|row| {
            let raw: Vec<u8> = row.try_get("raw")?;
            Ok((unsigned(row, "nonce")?, hash(row, "hash")?, Bytes::from(raw)))
        });
        versions.collect()
    }

    /// `evm.keeper_sign`: the nonces for which the version was stored.
    pub(crate) async fn sign_again(
        &self,
        wallet: i16,
        epoch: i64,
        versions: &[Version],
    ) -> Result<Vec<u64>, StoreError> {
        let each = || versions.iter();
        let kind = |version: &Version| if version.is_filler { "filler" } else { "own" };
        let stored = sqlx::query_scalar("select evm.keeper_sign($1, $2, $3, $4, $5, $6, $7, $8, $9)")
            .bind(wallet)
            .bind(epoch)
            .bind(each().map(|version| number(version.nonce)).collect::<Vec<_>>())
            .bind(each().map(|version| version.n).collect::<Vec<_>>())
            .bind(each().map(kind).collect::<Vec<_>>())
            .bind(each().map(|version| version.hash.as_slice()).collect::<Vec<_>>())
            .bind(each().map(|version| version.raw.as_ref()).collect::<Vec<_>>())
            .bind(each().map(|version| version.max_fee.to_string()).collect::<Vec<_>>())
            .bind(each().map(|version| version.tip.to_string()).collect::<Vec<_>>());
        let nonces: Vec<i64> = limited(stored.fetch_all(&self.pool)).await?;
        Ok(nonces.into_iter().filter_map(|nonce| nonce.try_into().ok()).collect())
    }

    /// `evm.keeper_reopen`: how many transactions a reorganisation has dropped.
    pub(crate) async fn reopen(&self, wallet: i16, epoch: i64, count: u64, head: u64) -> Result<i64, StoreError> {
        let reopened = sqlx::query_scalar("select evm.keeper_reopen($1, $2, $3, $4)")
            .bind(wallet)
            .bind(epoch)
            .bind(number(count))
            .bind(number(head));
        limited(reopened.fetch_one(&self.pool)).await
    }

    /// `evm.keeper_unsettled`: the last final transaction, and up to `limit` that may be final now.
    pub(crate) async fn unsettled(
        &self,
        wallet: i16,
        settled: u64,
        block: u64,
        limit: i32,
    ) -> Result<Vec<Unsettled>, StoreError> {
        let unsettled = sqlx::query("select * from evm.keeper_unsettled($1, $2, $3, $4)")
            .bind(wallet)
            .bind(number(settled))
            .bind(number(block))
            .bind(limit);
        let rows = limited(unsettled.fetch_all(&self.pool)).await?;
        let transactions = rows.iter().map(|row| {
            Ok(Unsettled {
                nonce: unsigned(row, "nonce")?,
                is_settled: row.try_get::<String, _>("state")? != "mined",
                hash: hash(row, "mined_hash")?,
                block_hash: hash(row, "block_hash")?,
            })
        });
        transactions.collect()
    }

    /// `evm.keeper_settle`: the lowest nonce that is not final then; none when another epoch keeps the wallet.
    pub(crate) async fn settle(
        &self,
        wallet: i16,
        epoch: i64,
        finals: &[(u64, B256)],
    ) -> Result<Option<u64>, StoreError> {
        let (nonces, blocks): (Vec<_>, Vec<_>) =
            finals.iter().map(|(nonce, block)| (number(*nonce), block.as_slice())).unzip();
        let settled = sqlx::query_scalar::<_, Option<i64>>("select evm.keeper_settle($1, $2, $3, $4)")
            .bind(wallet)
            .bind(epoch)
            .bind(nonces)
            .bind(blocks);
        Ok(limited(settled.fetch_one(&self.pool)).await?.and_then(|nonce| nonce.try_into().ok()))
    }

    /// `evm.keeper_off`: whether it was in use.
    pub(crate) async fn keeper_off(&self, wallet: i16, epoch: i64, cause: &str) -> Result<bool, StoreError> {
        let off = sqlx::query_scalar("select evm.keeper_off($1, $2, $3)").bind(wallet).bind(epoch).bind(cause);
        limited(off.fetch_one(&self.pool)).await
    }

    /// `evm.keeper_adopt`: whether the transaction is taken for a version of the order's.
    pub(crate) async fn adopt_version(
        &self,
        wallet: i16,
        nonce: u64,
        transaction: &BodyTransaction,
    ) -> Result<bool, StoreError> {
        let Some(to) = transaction.to else { return Ok(false) };
        let adopted = sqlx::query_scalar("select evm.keeper_adopt($1, $2, $3, $4, $5, $6, $7)")
            .bind(wallet)
            .bind(number(nonce))
            .bind(to.as_slice())
            .bind(transaction.input.as_ref())
            .bind(transaction.hash.as_slice())
            .bind(transaction.max_fee().to_string())
            .bind(transaction.tip().to_string());
        limited(adopted.fetch_one(&self.pool)).await
    }

    /// `evm.keeper_fund`: whether that is news.
    pub(crate) async fn keeper_fund(&self, wallet: i16, epoch: i64, cause: Option<&str>) -> Result<bool, StoreError> {
        let funded = sqlx::query_scalar("select evm.keeper_fund($1, $2, $3)").bind(wallet).bind(epoch).bind(cause);
        limited(funded.fetch_one(&self.pool)).await
    }
}

fn hash(row: &PgRow, column: &'static str) -> Result<B256, StoreError> {
    B256::try_from(row.try_get::<&[u8], _>(column)?).map_err(|_| StoreError::Value(column))
}

fn fee(row: &PgRow, column: &'static str) -> Result<u128, StoreError> {
    row.try_get::<&str, _>(column)?.parse().map_err(|_| StoreError::Value(column))
}

fn open_slot(row: &PgRow) -> Result<OpenSlot, StoreError> {
    let hashes: Vec<Vec<u8>> = row.try_get("hashes")?;
    let hashes = hashes.iter().map(|hash| B256::try_from(hash.as_slice()).map_err(|_| StoreError::Value("hash")));
    Ok(OpenSlot {
        nonce: unsigned(row, "nonce")?,
        is_sent: row.try_get::<&str, _>("state")? == "sent",
        signed_at: row.try_get("signed_at")?,
        hashes: hashes.collect::<Result<_, _>>()?,
        n: row.try_get("n")?,
        is_filler: row.try_get::<&str, _>("kind")? == "filler",
        max_fee: fee(row, "max_fee")?,
        tip: fee(row, "tip")?,
        answer: row.try_get("answer")?,
        age: milliseconds(row.try_get("age_ms")?),
        ended: row.try_get::<Option<i64>, _>("ended_ms")?.map(milliseconds),
    })
}
