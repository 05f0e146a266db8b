//! How far a chain was read.

use alloy::primitives::B256;
use alloy::rpc::types::Header;
use sqlx::{PgConnection, Row, postgres::PgRow};

use super::{Store, StoreError, limited, number, unsigned};

/// A block, by its number and hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockId {
    /// Its number.
    pub number: u64,
    /// Its hash.
    pub hash: B256,
}

/// Where a watcher is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor {
    /// The last block whose logs were applied.
    pub(crate) at: BlockId,
    /// The epoch that moved it there.
    pub(crate) epoch: i64,
}

impl BlockId {
    /// The block of a header.
    #[must_use]
    pub fn of(header: &Header) -> BlockId {
        BlockId { number: header.number, hash: header.hash }
    }
}

fn block(row: &PgRow) -> Result<BlockId, StoreError> {
    let hash: Vec<u8> = row.try_get("hash")?;
    Ok(BlockId {
        number: unsigned(row, "number")?,
        hash: B256::try_from(hash.as_slice()).map_err(|_| StoreError::Value("hash"))?,
    })
}

fn cursor(row: &PgRow) -> Result<Cursor, StoreError> {
    Ok(Cursor { at: block(row)?, epoch: row.try_get("epoch")? })
}

impl Store {
    /// The number of the last block whose logs a watcher has applied; `None`: it has not begun.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn watched_up_to(&self, watcher: &str, chain_id: u64) -> Result<Option<u64>, StoreError> {
        Ok(self.cursor(watcher, chain_id).await?.map(|cursor| cursor.at.number))
    }

    /// Where a watcher is, if it has begun: `evm.cursor_read`.
    pub(crate) async fn cursor(&self, name: &str, chain_id: u64) -> Result<Option<Cursor>, StoreError> {
        let read = sqlx::query("select * from evm.cursor_read($1, $2)").bind(name).bind(number(chain_id));
        limited(read.fetch_optional(&self.pool)).await?.as_ref().map(cursor).transpose()
    }

    /// Where a watcher is, which begins at this block if it has not begun: `evm.cursor_start`. None if it is another
    /// chain's.
    pub(crate) async fn cursor_start(
        &self,
        name: &str,
        chain_id: u64,
        at: BlockId,
    ) -> Result<Option<Cursor>, StoreError> {
        let started = sqlx::query("select * from evm.cursor_start($1, $2, $3, $4)")
            .bind(name)
            .bind(number(chain_id))
            .bind(number(at.number))
            .bind(at.hash.as_slice());
        limited(started.fetch_optional(&self.pool)).await?.as_ref().map(cursor).transpose()
    }

    /// The last blocks that a watcher read up to, the newest one first: `evm.cursor_blocks`.
    pub(crate) async fn cursor_blocks(&self, name: &str) -> Result<Vec<BlockId>, StoreError> {
        let blocks = sqlx::query("select * from evm.cursor_blocks($1)").bind(name);
        limited(blocks.fetch_all(&self.pool)).await?.iter().map(block).collect()
    }

    /// The blocks after this one that transactions of the chain's wallets are mined in: `evm.mined_after`.
    pub(crate) async fn mined_after(&self, chain_id: u64, after: u64) -> Result<Vec<BlockId>, StoreError> {
        let mined = sqlx::query("select * from evm.mined_after($1, $2)").bind(number(chain_id)).bind(number(after));
        limited(mined.fetch_all(&self.pool)).await?.iter().map(block).collect()
    }

    /// Sets transactions in these dropped blocks back to `sent`: `evm.unmine`. Returns how many.
    pub(crate) async fn unmine(&self, chain_id: u64, after: u64, dropped: &[B256]) -> Result<i64, StoreError> {
        let hashes: Vec<&[u8]> = dropped.iter().map(|hash| hash.as_slice()).collect();
        let unmined =
            sqlx::query_scalar("select evm.unmine($1, $2, $3)").bind(number(chain_id)).bind(number(after)).bind(hashes);
        limited(unmined.fetch_one(&self.pool)).await
    }
}

/// Moves a cursor to a later block, or back to one that was read up to: `evm.cursor_move`. False if it was elsewhere.
pub(crate) async fn move_to(
    connection: &mut PgConnection,
    name: &str,
    epoch: i64,
    from: BlockId,
    to: BlockId,
) -> Result<bool, StoreError> {
    let moved = sqlx::query_scalar("select evm.cursor_move($1, $2, $3, $4, $5, $6)")
        .bind(name)
        .bind(epoch)
        .bind(number(from.number))
        .bind(from.hash.as_slice())
        .bind(number(to.number))
        .bind(to.hash.as_slice());
    limited(moved.fetch_one(connection)).await
}
