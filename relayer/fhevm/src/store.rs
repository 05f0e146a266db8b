//! The tables of this crate: which request the gateway's ids belong to, and the key URL.

mod calls;

use alloy::primitives::{Address, B256, U256};
use serde_json::Value;
use sqlx::{FromRow, PgConnection, PgPool, Postgres, Transaction, types::Json};
use tidegate::request::RequestId;
use tidegate_evm::Mined;
use uuid::Uuid;

use crate::{
    answers::Contracts,
    request::{Family, Payload},
};

/// A database error.
#[derive(Debug, thiserror::Error)]
#[error("the database did not answer: {0}")]
pub struct StoreError(#[from] sqlx::Error);

type Result<T, E = StoreError> = std::result::Result<T, E>;

/// The connections of one process.
#[derive(Debug, Clone)]
pub struct Store {
    pool: PgPool,
}

/// The id that a contract gave to a request, in one block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The contract.
    pub contract: Address,
    /// The id.
    pub id: U256,
    /// The request.
    pub request: RequestId,
    /// The block of the request's transaction.
    pub block_number: u64,
    /// Its hash: in another block, the id may be another request's.
    pub block_hash: B256,
}

impl Reference {
    /// Those that the logs of a receipt tell: one, or two logs of the same.
    #[must_use]
    pub fn of_receipt(contracts: &Contracts, request: RequestId, mined: &Mined) -> Vec<Self> {
        let events = mined.logs.iter().filter_map(|log| contracts.event(log));
        let mut references: Vec<_> = events
            .filter(|event| event.answer.is_none())
            .map(|event| Self {
                contract: event.contract,
                id: event.id,
                request,
                block_number: mined.block_number,
                block_hash: mined.block_hash,
            })
            .collect();
        references.dedup();
        references
    }
}

/// A request that an id belongs to.
#[derive(Debug, Clone)]
pub(crate) struct Referenced {
    pub(crate) reference: Reference,
    /// False while only a receipt told of it.
    pub(crate) watched: bool,
    pub(crate) kind: String,
    /// It needs no answer any more.
    pub(crate) ended: bool,
    /// For how many seconds it has awaited its answer; `None` before its receipt.
    pub(crate) waited: Option<f64>,
    /// Only of the kinds that were asked for.
    pub(crate) payload: Option<Payload>,
}

/// A request that has awaited its response for long.
#[derive(Debug, Clone, Copy, FromRow)]
pub(crate) struct Awaiting {
    pub(crate) id: Uuid,
    /// For how long, in seconds.
    pub(crate) seconds: i64,
}

impl Store {
    /// On these connections.
    #[must_use]
    pub fn new(pool: PgPool) -> Self {
        Self { pool }
    }

    pub(crate) async fn begin(&self) -> Result<Transaction<'static, Postgres>> {
        Ok(self.pool.begin().await?)
    }

    /// Notes what a receipt tells. The watcher's own rows stay.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn note_receipt(&self, references: &[Reference]) -> Result<()> {
        if references.is_empty() {
            return Ok(());
        }
        let mut connection = self.pool.acquire().await?;
        note(&mut connection, references, false).await
    }

    /// Requests that have awaited their response for at least so many seconds, after this one by id.
    pub(crate) async fn awaiting(&self, seconds: i32, after: Uuid, limit: i64) -> Result<Vec<Awaiting>> {
        Ok(sqlx::query_as(
            "select r.id, extract(epoch from tidegate.clock() - r.receipt_received_at)::bigint as seconds
             from tidegate.awaiting_response as a
             join tidegate.request as r on r.id = a.request_id
             where r.kind = any($1) and r.req_status = 'receipt_received'
               and r.receipt_received_at <= tidegate.clock() - make_interval(secs => $2) and r.id > $3
             order by r.id limit $4",
        )
        .bind(kinds())
        .bind(seconds)
        .bind(after)
        .bind(limit)
        .fetch_all(&self.pool)
        .await?)
    }

    /// The ids of these requests.
    pub(crate) async fn references_of(&self, requests: &[Uuid]) -> Result<Vec<Reference>> {
        let rows: Vec<ReferenceRow> = sqlx::query_as(
            "select f.contract, f.id, f.request_id, f.block_number, f.block_hash
             from fhevm.reference as f where f.request_id = any($1)",
        )
        .bind(requests)
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.into_iter().map(Reference::from).collect())
    }

    /// The mined transactions of these requests, and whether they succeeded.
    pub(crate) async fn mined_hashes(&self, requests: &[Uuid]) -> Result<Vec<(RequestId, B256, bool)>> {
        let rows: Vec<(Uuid, Vec<u8>, bool)> = sqlx::query_as(
            "select t.order_id, t.mined_hash, t.status = 1 from evm.tx as t
             where t.order_id = any($1) and t.state in ('mined', 'final')",
        )
        .bind(requests)
        .fetch_all(&self.pool)
        .await?;
        Ok(rows.into_iter().map(|(id, hash, succeeded)| (RequestId(id), B256::from_slice(&hash), succeeded)).collect())
    }

    /// What a request asks for.
    pub(crate) async fn payload(&self, request: RequestId) -> Result<Option<Payload>> {
        let payload: Option<Json<Payload>> =
            sqlx::query_scalar("select r.payload from tidegate.request as r where r.id = $1")
                .bind(request.0)
                .fetch_optional(&self.pool)
                .await?;
        Ok(payload.map(|payload| payload.0))
    }

    /// Deletes rows whose request is gone, among the next ones after `after` by request; returns the last one read, or
    /// `None` after the end.
    pub(crate) async fn forget(&self, after: Uuid) -> Result<Option<Uuid>> {
        let last: Option<Uuid> = sqlx::query_scalar(
            "with slice as (
               select f.contract, f.id, f.request_id from fhevm.reference as f
               where f.request_id > $1 order by f.request_id limit 5000
             ), gone as (
               delete from fhevm.reference as f using slice as s
               where f.contract = s.contract and f.id = s.id
                 and not exists (select from tidegate.request as r where r.id = s.request_id)
             )
             select max(s.request_id::text)::uuid from slice as s",
        )
        .bind(after)
        .fetch_one(&self.pool)
        .await?;
        Ok(last)
    }

    /// Stores the answer of the key URL.
    pub(crate) async fn key_url_set(&self, answer: &Value) -> Result<()> {
        sqlx::query(
            "insert into fhevm.key_url (answer) values ($1)
             on conflict (only_row) do update set answer = excluded.answer, read_at = tidegate.clock()",
        )
        .bind(answer)
        .execute(&self.pool)
        .await?;
        Ok(())
    }

    /// The answer of the key URL, once it has been read.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn key_url(&self) -> Result<Option<Value>> {
        let answer = sqlx::query_scalar("select k.answer from fhevm.key_url as k");
        Ok(answer.fetch_optional(&self.pool).await?)
    }
}

fn kinds() -> [&'static str; 4] {
    Family::ALL.map(Family::kind)
}

/// Notes which request an id belongs to. What the watcher has read wins over what a receipt tells.
pub(crate) async fn note(connection: &mut PgConnection, references: &[Reference], watched: bool) -> Result<()> {
    let column = |of: fn(&Reference) -> Vec<u8>| references.iter().map(of).collect::<Vec<_>>();
    sqlx::query(
        "insert into fhevm.reference as f (contract, id, request_id, block_number, block_hash, watched)
         select distinct on (u.contract, u.id) u.contract, u.id, u.request_id, u.block_number, u.block_hash, $6
         from unnest($1::bytea[], $2::bytea[], $3::uuid[], $4::bigint[], $5::bytea[])
           as u(contract, id, request_id, block_number, block_hash)
         order by u.contract, u.id
         on conflict (contract, id) do update
         set request_id = excluded.request_id, block_number = excluded.block_number,
           block_hash = excluded.block_hash, watched = excluded.watched
         where excluded.watched or not f.watched",
    )
    .bind(column(|reference| reference.contract.to_vec()))
    .bind(column(|reference| reference.id.to_be_bytes_vec()))
    .bind(references.iter().map(|reference| reference.request.0).collect::<Vec<_>>())
    .bind(references.iter().map(|reference| reference.block_number.cast_signed()).collect::<Vec<_>>())
    .bind(column(|reference| reference.block_hash.to_vec()))
    .bind(watched)
    .execute(connection)
    .await?;
    Ok(())
}

/// The requests whose transactions have these hashes.
pub(crate) async fn own(connection: &mut PgConnection, hashes: &[B256]) -> Result<Vec<(B256, RequestId)>> {
    let rows: Vec<(Vec<u8>, Uuid)> = sqlx::query_as(
        "select a.hash, t.order_id from evm.attempt as a
         join evm.tx as t on t.wallet = a.wallet and t.nonce = a.nonce
         where a.hash = any($1) and a.kind = 'own' and t.order_id is not null",
    )
    .bind(hashes.iter().map(|hash| hash.to_vec()).collect::<Vec<_>>())
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|(hash, id)| (B256::from_slice(&hash), RequestId(id))).collect())
}

/// The requests that these ids of contracts belong to, with the payloads of the kinds that need them.
pub(crate) async fn referenced(
    connection: &mut PgConnection,
    ids: &[(Address, U256)],
    with_payload: &[&str],
) -> Result<Vec<Referenced>> {
    let rows: Vec<ReferencedRow> = sqlx::query_as(
        "select f.contract, f.id, f.request_id, f.block_number, f.block_hash, f.watched, r.kind,
           r.finished_at is not null as ended,
           extract(epoch from tidegate.clock() - r.receipt_received_at)::float8 as waited,
           case when r.kind = any($3) then r.payload end as payload
         from unnest($1::bytea[], $2::bytea[]) as u(contract, id)
         join fhevm.reference as f on f.contract = u.contract and f.id = u.id
         join tidegate.request as r on r.id = f.request_id",
    )
    .bind(ids.iter().map(|(contract, _)| contract.to_vec()).collect::<Vec<_>>())
    .bind(ids.iter().map(|(_, id)| id.to_be_bytes_vec()).collect::<Vec<_>>())
    .bind(with_payload)
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(Referenced::from).collect())
}

/// Deletes a row that a receipt told of and the chain does not confirm; false if it is another one by now.
pub(crate) async fn refute(connection: &mut PgConnection, reference: &Reference) -> Result<bool> {
    let deleted = sqlx::query(
        "delete from fhevm.reference as f
         where f.contract = $1 and f.id = $2 and f.block_hash = $3 and not f.watched",
    )
    .bind(reference.contract.as_slice())
    .bind(reference.id.to_be_bytes_vec())
    .bind(reference.block_hash.as_slice())
    .execute(connection)
    .await?;
    Ok(deleted.rows_affected() > 0)
}

/// Notes that the chain confirms a row that a receipt told of.
pub(crate) async fn confirm(connection: &mut PgConnection, reference: &Reference) -> Result<()> {
    sqlx::query(
        "update fhevm.reference as f set watched = true
         where f.contract = $1 and f.id = $2 and f.block_hash = $3 and not f.watched",
    )
    .bind(reference.contract.as_slice())
    .bind(reference.id.to_be_bytes_vec())
    .bind(reference.block_hash.as_slice())
    .execute(connection)
    .await?;
    Ok(())
}

/// Deletes the rows of blocks that were dropped; returns how many.
pub(crate) async fn dropped(connection: &mut PgConnection, from_block: u64) -> Result<u64> {
    let deleted = sqlx::query("delete from fhevm.reference as f where f.block_number >= $1 and f.watched")
        .bind(from_block.cast_signed())
        .execute(connection)
        .await?;
    Ok(deleted.rows_affected())
}

#[derive(FromRow)]
struct ReferenceRow {
    contract: Vec<u8>,
    id: Vec<u8>,
    request_id: Uuid,
    block_number: i64,
    block_hash: Vec<u8>,
}

impl From<ReferenceRow> for Reference {
    fn from(row: ReferenceRow) -> Self {
        Self {
            contract: Address::from_slice(&row.contract),
            id: U256::from_be_slice(&row.id),
            request: RequestId(row.request_id),
            block_number: row.block_number.cast_unsigned(),
            block_hash: B256::from_slice(&row.block_hash),
        }
    }
}

#[derive(FromRow)]
struct ReferencedRow {
    #[sqlx(flatten)]
    reference: ReferenceRow,
    watched: bool,
    kind: String,
    ended: bool,
    waited: Option<f64>,
    payload: Option<Json<Payload>>,
}

impl From<ReferencedRow> for Referenced {
    fn from(row: ReferencedRow) -> Self {
        Self {
            reference: row.reference.into(),
            watched: row.watched,
            kind: row.kind,
            ended: row.ended,
            waited: row.waited,
            payload: row.payload.map(|payload| payload.0),
        }
    }
}
