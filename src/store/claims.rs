//! Taking work, keeping it, giving it back.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::value::RawValue;
use sqlx::{FromRow, types::Json};
use uuid::Uuid;

use super::{
    Lease, Moved, Store,
    leases::{columns, milliseconds},
    settles::MovedRow,
};
use crate::{
    error::StoreError,
    request::{Phases, Request, RequestId, Stage},
};

/// A claimed request.
#[derive(Debug, Clone)]
pub struct Claimed {
    /// The hold on it.
    pub lease: Lease,
    /// The request.
    pub request: Request,
    /// When its send may start; none when the queue has no rate limit.
    pub slot: Option<Slot>,
    /// How long the policy lets one call run; no longer than its request.
    pub timeout: Duration,
    /// How it may be called more than once; none: it may not.
    pub hedging: Option<Hedging>,
    /// Which version of its policy this attempt is made under.
    pub policy_version: i32,
    /// Whether its timeout is learned: `timeout` is the longest then.
    pub adaptive: bool,
}

/// A reserved send of a queue with a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// When it was reserved, by the database's clock: microseconds since 1970.
    pub reserved_at_us: i64,
    /// How long after that it may start.
    pub send_in: Duration,
}

/// When a call that is slow is made once more.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hedging {
    /// How long a call goes unanswered before the next is made.
    pub after: Duration,
    /// How many more calls there are, at most.
    pub max: u32,
    /// How many more calls there are as a share of all, at most.
    pub share: f64,
}

#[derive(FromRow)]
struct ClaimedRow {
    token: i64,
    id: Uuid,
    kind: String,
    payload: Json<Box<RawValue>>,
    attempt: i32,
    attempts_max: i32,
    timeout_ms: i32,
    deadline_at: DateTime<Utc>,
    submitter: Option<String>,
    reserved_at_us: Option<i64>,
    send_in_us: Option<i64>,
    hedge_after_ms: Option<i32>,
    hedge_max: i32,
    hedge_share: f64,
    connect_ms: Option<i32>,
    first_byte_ms: Option<i32>,
    body_ms: Option<i32>,
    policy_version: i32,
    probe: bool,
    adaptive: bool,
}

impl ClaimedRow {
    /// A probe of a broken downstream is made once.
    fn hedging(&self) -> Option<Hedging> {
        (self.hedge_max > 0 && !self.probe).then_some(Hedging {
            after: of_milliseconds(self.hedge_after_ms?),
            max: count(self.hedge_max),
            share: self.hedge_share,
        })
    }

    fn phases(&self) -> Option<Phases> {
        Some(Phases {
            connect: of_milliseconds(self.connect_ms?),
            first_byte: of_milliseconds(self.first_byte_ms?),
            body: of_milliseconds(self.body_ms?),
        })
    }
}

impl From<ClaimedRow> for Claimed {
    fn from(row: ClaimedRow) -> Self {
        let (hedging, phases) = (row.hedging(), row.phases());
        Self {
            lease: Lease {
                token: row.token,
                id: row.id,
            },
            request: Request {
                id: RequestId(row.id),
                kind: row.kind,
                payload: row.payload.0,
                attempt: count(row.attempt),
                attempts_max: count(row.attempts_max),
                deadline_at: row.deadline_at,
                submitter: row.submitter,
                phases,
            },
            slot: row
                .reserved_at_us
                .zip(row.send_in_us)
                .map(|(reserved_at_us, send_in_us)| Slot {
                    reserved_at_us,
                    send_in: microseconds(send_in_us),
                }),
            timeout: of_milliseconds(row.timeout_ms),
            hedging,
            policy_version: row.policy_version,
            adaptive: row.adaptive,
        }
    }
}

impl Store {
    /// Takes up to `batch` requests of a queue, of these kinds or of all: `tidegate.claim_readiness` or `tidegate.claim_tx`.
    ///
    /// Committed, durably, when this returns.
    ///
    /// # Errors
    ///
    /// Unknown queue or one of the other stage, a lease that makes no sense, database trouble.
    pub async fn claim(
        &self,
        stage: Stage,
        queue: &str,
        worker: &str,
        batch: usize,
        lease_for: Duration,
        kinds: Option<&[String]>,
    ) -> Result<Vec<Claimed>, StoreError> {
        let sql = match stage {
            Stage::Readiness => include_str!("../../sql/queries/claim_readiness.sql"),
            Stage::Tx => include_str!("../../sql/queries/claim_tx.sql"),
        };
        let rows: Vec<ClaimedRow> = ask!(
            self,
            sqlx::query_as(sql)
                .bind(queue)
                .bind(worker)
                .bind(i32::try_from(batch).unwrap_or(i32::MAX))
                .bind(milliseconds(lease_for))
                .bind(kinds),
            fetch_all
        );
        Ok(rows.into_iter().map(Claimed::from).collect())
    }

    /// For how long nothing of these kinds will be claimable in a queue: `tidegate.claim_wait_ms`.
    ///
    /// # Errors
    ///
    /// Unknown queue, database trouble.
    pub async fn claim_wait(&self, queue: &str, kinds: &[String]) -> Result<Duration, StoreError> {
        let wait_ms: i32 = ask!(
            self,
            sqlx::query_scalar(include_str!("../../sql/queries/claim_wait_ms.sql"))
                .bind(queue)
                .bind(kinds),
            fetch_one
        );
        Ok(Duration::from_millis(u64::try_from(wait_ms).unwrap_or_default()))
    }

    /// Takes one more slot of a queue's rate: `tidegate.reserve_send`. `Ok` says when to send, `Err` in how long to ask
    /// again.
    ///
    /// # Errors
    ///
    /// Unknown queue, database trouble.
    pub async fn reserve_send(&self, queue: &str) -> Result<Result<Slot, Duration>, StoreError> {
        let (reserved_at_us, send_in_us, wait_ms): (i64, Option<i64>, i32) = ask!(
            self,
            sqlx::query_as(include_str!("../../sql/queries/reserve_send.sql")).bind(queue),
            fetch_one
        );
        Ok(match send_in_us {
            Some(send_in_us) => Ok(Slot {
                reserved_at_us,
                send_in: microseconds(send_in_us),
            }),
            None => Err(Duration::from_millis(u64::try_from(wait_ms).unwrap_or_default().max(1))),
        })
    }

    /// Prolongs leases to `lease_for` from now: `tidegate.extend`. Returns those prolonged; the others are lost.
    ///
    /// # Errors
    ///
    /// Database trouble.
    pub async fn extend(&self, queue: &str, leases: &[Lease], lease_for: Duration) -> Result<Vec<Lease>, StoreError> {
        let (tokens, ids) = columns(leases);
        let rows: Vec<(i64, Uuid)> = ask!(
            self,
            sqlx::query_as(include_str!("../../sql/queries/extend.sql"))
                .bind(queue)
                .bind(tokens)
                .bind(ids)
                .bind(milliseconds(lease_for)),
            fetch_all
        );
        Ok(rows.into_iter().map(|(token, id)| Lease { token, id }).collect())
    }

    /// Which of these leases are still held: `tidegate.still_held`. Reads only.
    ///
    /// # Errors
    ///
    /// Database trouble.
    pub async fn still_held(&self, queue: &str, leases: &[Lease]) -> Result<Vec<Lease>, StoreError> {
        let (tokens, ids) = columns(leases);
        let rows: Vec<(i64, Uuid)> = ask!(
            self,
            sqlx::query_as(include_str!("../../sql/queries/still_held.sql"))
                .bind(queue)
                .bind(tokens)
                .bind(ids),
            fetch_all
        );
        Ok(rows.into_iter().map(|(token, id)| Lease { token, id }).collect())
    }

    /// Gives back what was not begun: `tidegate.release`.
    ///
    /// # Errors
    ///
    /// Database trouble.
    pub async fn release(&self, queue: &str, leases: &[Lease]) -> Result<Vec<Moved>, StoreError> {
        let (tokens, ids) = columns(leases);
        let rows: Vec<MovedRow> = ask!(
            self,
            sqlx::query_as(include_str!("../../sql/queries/release.sql"))
                .bind(queue)
                .bind(tokens)
                .bind(ids),
            fetch_all
        );
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// Tells a queue's workers that there is something to claim: `tidegate.wake`.
    ///
    /// # Errors
    ///
    /// Database trouble.
    pub async fn wake(&self, queue: &str) -> Result<(), StoreError> {
        ask!(
            self,
            sqlx::query(include_str!("../../sql/queries/wake.sql")).bind(queue),
            execute
        );
        Ok(())
    }
}

fn count(number: i32) -> u32 {
    u32::try_from(number).unwrap_or_default()
}

fn of_milliseconds(number: i32) -> Duration {
    Duration::from_millis(count(number).into())
}

fn microseconds(count: i64) -> Duration {
    Duration::from_micros(u64::try_from(count).unwrap_or_default())
}
