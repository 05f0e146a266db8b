//! The calls of requests, for what is compared with the chain.

use std::ops::RangeInclusive;

use sqlx::types::Json;
use tidegate::request::RequestId;
use tidegate_evm::{
    checker::{ExpectedRequest, Sends},
    operations::Call,
};
use uuid::Uuid;

use super::{Result, Store, kinds};
use crate::{answers::Contracts, calldata, request::Payload};

impl Store {
    /// The calls of requests that have no nonce, and that have not ended long ago.
    ///
    /// # Errors
    ///
    /// A database error; a payload that cannot be read.
    pub async fn calls_without_slot(&self, contracts: &Contracts) -> Result<Vec<Call>> {
        let rows: Vec<(Uuid, Json<Payload>)> = sqlx::query_as(
            "select r.id, r.payload from tidegate.request as r
             where r.kind = any($1) and r.kind >= '' and not exists (select from evm.tx as t where t.order_id = r.id)
               and coalesce(r.finished_at > tidegate.clock() - interval '1 day', true)",
        )
        .bind(kinds())
        .fetch_all(&self.pool)
        .await?;
        let call = |(id, Json(payload))| Call {
            request: RequestId(id),
            to: calldata::contract(contracts, &payload),
            calldata: calldata::of(&payload),
        };
        Ok(rows.into_iter().map(call).collect())
    }

    /// The calls of all requests, and how often each should be in these blocks.
    ///
    /// # Errors
    ///
    /// A database error; a payload that cannot be read.
    pub async fn expected(&self, contracts: &Contracts, blocks: &RangeInclusive<u64>) -> Result<Vec<ExpectedRequest>> {
        let rows: Vec<(Uuid, Json<Payload>, bool, bool)> = sqlx::query_as(
            "select r.id, r.payload,
               r.receipt_received_at is not null and r.cause is distinct from 'rejected'
                 and coalesce(t.block_number between $2 and $3, true),
               coalesce(r.tx_in_flight_at, r.receipt_received_at) is not null
             from tidegate.request as r
             left join evm.tx as t on t.order_id = r.id and t.state not in ('lost', 'void')
             where r.kind = any($1) and r.kind >= ''",
        )
        .bind(kinds())
        .bind(blocks.start().cast_signed())
        .bind(blocks.end().cast_signed())
        .fetch_all(&self.pool)
        .await?;
        // A receipt that was taken back ends a request with the cause `rejected`.
        let expected = |(id, Json(payload), is_there, may_be_sent)| ExpectedRequest {
            id: RequestId(id),
            to: calldata::contract(contracts, &payload),
            calldata: calldata::of(&payload),
            sends: match (is_there, may_be_sent) {
                (true, _) => Sends::One,
                (false, true) => Sends::AtMostOne,
                (false, false) => Sends::None,
            },
        };
        Ok(rows.into_iter().map(expected).collect())
    }

    /// The first block that is known to have a transaction of a wallet of this chain.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn first_block(&self, chain_id: u64) -> Result<Option<u64>> {
        let first: Option<i64> = sqlx::query_scalar(
            "select min(t.block_number) from evm.tx as t join evm.wallet as w on w.id = t.wallet
             where w.chain_id = $1",
        )
        .bind(chain_id.cast_signed())
        .fetch_one(&self.pool)
        .await?;
        Ok(first.map(i64::cast_unsigned))
    }
}
