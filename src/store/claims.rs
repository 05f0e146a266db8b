//! Claims.

use std::time::Duration;

use sqlx::{FromRow, postgres::PgRow, types::Json};
use tokio_util::sync::CancellationToken;

use super::{
    Lease, Store,
    columns::{Columns, count, from_milliseconds, milliseconds},
};
use crate::{
    error::Result,
    request::{Phases, Request, RequestId, Stage},
};

/// The statements of this module.
const SQL: &str = include_str!("../../sql/queries/claims.sql");

/// A claimed request.
#[derive(Debug, Clone)]
pub struct Claimed {
    /// Its lease.
    pub lease: Lease,
    /// The request.
    pub request: Request,
    /// When its send may start; none when the queue has no rate limit.
    pub slot: Option<Slot>,
    /// The timeout of one call by its policy; no longer than its request.
    pub timeout: Duration,
    /// How it may be called more than once; none: it may not.
    pub hedging: Option<Hedging>,
    /// Which version of its policy this attempt is made under.
    pub policy_version: i32,
    /// Whether its timeout is learned: `timeout` is the longest then.
    pub adaptive: bool,
    /// Whether this attempt begins a trace of its own, which links to the request's.
    pub begins_trace: bool,
}

/// A reserved send of a queue with a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// When it was reserved, by the database's clock: microseconds since 1970.
    pub reserved_at_us: i64,
    /// How long after that it may start.
    pub send_in: Duration,
}

/// When a slow call is hedged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hedging {
    /// How long a call goes unanswered before the next is made.
    pub after: Duration,
    /// How many more calls there are, at most.
    pub max: u32,
    /// How many more calls there are as a share of all, at most.
    pub share: f64,
}

impl FromRow<'_, PgRow> for Claimed {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        let mut columns = Columns::of(row);
        let lease = Lease { token: columns.next()?, id: columns.next()? };
        let id = RequestId(lease.id);
        Ok(Self {
            lease,
            request: Request {
                id,
                kind: columns.next()?,
                payload: columns.next::<Json<_>>()?.0,
                attempt: count(columns.next()?),
                attempts_max: count(columns.next()?),
                deadline_at: columns.next()?,
                submitter: columns.next()?,
                send_id: columns.next::<Option<_>>()?.map_or(id, RequestId),
                traceparent: columns.next()?,
                phases: Phases::read(&mut columns)?,
                lease_token: lease.token,
                cancellation: CancellationToken::new(),
            },
            slot: Slot::reserved(columns.next()?, columns.next()?),
            timeout: from_milliseconds(columns.next::<i32>()?),
            hedging: Hedging::read(&mut columns)?,
            policy_version: columns.next()?,
            adaptive: columns.next()?,
            begins_trace: columns.next::<Option<_>>()?.unwrap_or_default(),
        })
    }
}

impl Phases {
    pub(super) fn read(columns: &mut Columns<'_>) -> sqlx::Result<Option<Self>> {
        let [connect, first_byte, body] = [columns.length()?, columns.length()?, columns.length()?];
        let all = connect.zip(first_byte).zip(body);
        Ok(all.map(|((connect, first_byte), body)| Self { connect, first_byte, body }))
    }
}

impl Hedging {
    fn read(columns: &mut Columns<'_>) -> sqlx::Result<Option<Self>> {
        let (after, max, share) = (columns.length()?, count(columns.next()?), columns.next()?);
        let is_probe: bool = columns.next()?;
        // A probe of a broken downstream is made once.
        let after = after.filter(|_| max > 0 && !is_probe);
        Ok(after.map(|after| Self { after, max, share }))
    }
}

impl Slot {
    fn reserved(reserved_at_us: Option<i64>, send_in_us: Option<i64>) -> Option<Self> {
        let (reserved_at_us, send_in_us) = reserved_at_us.zip(send_in_us)?;
        let send_in = Duration::from_micros(send_in_us.try_into().unwrap_or_default());
        Some(Self { reserved_at_us, send_in })
    }
}

impl Store {
    /// Takes up to `batch` requests of a queue, of these kinds or of all: `tidegate.claim_readiness` or
    /// `tidegate.claim_tx`.
    ///
    /// Committed, durably, when this returns.
    ///
    /// # Errors
    ///
    /// Unknown queue or one of the other stage, an invalid lease, a database error.
    pub async fn claim(
        &self,
        stage: Stage,
        queue: &str,
        worker: &str,
        batch: usize,
        lease_for: Duration,
        kinds: Option<&[String]>,
    ) -> Result<Vec<Claimed>> {
        let sql = match stage {
            Stage::Readiness => statement!("claim_readiness"),
            Stage::Tx => statement!("claim_tx"),
        };
        let batch = i32::try_from(batch).unwrap_or(i32::MAX);
        run!(self, fetch_all query_as sql(queue, worker, batch, milliseconds(lease_for), kinds))
    }

    /// The time until a request of these kinds can be claimed from a queue: `tidegate.claim_wait_ms`.
    ///
    /// # Errors
    ///
    /// Unknown queue, a database error.
    pub async fn claim_wait(&self, queue: &str, kinds: &[String]) -> Result<Duration> {
        let wait_ms: i32 = run!(self, fetch_one query_scalar "claim_wait_ms"(queue, kinds))?;
        Ok(from_milliseconds(wait_ms))
    }

    /// Reserves one more slot of a queue's rate: `tidegate.reserve_send`. `Ok` has the time of the send, `Err` the wait
    /// before another try.
    ///
    /// # Errors
    ///
    /// Unknown queue, a database error.
    pub async fn reserve_send(&self, queue: &str) -> Result<Result<Slot, Duration>> {
        let (reserved_at_us, send_in_us, wait_ms): (i64, Option<i64>, i32) =
            run!(self, fetch_one query_as "reserve_send"(queue))?;
        let slot = Slot::reserved(Some(reserved_at_us), send_in_us);
        Ok(slot.ok_or(from_milliseconds(wait_ms.max(1))))
    }

    /// Wakes a queue's workers: `tidegate.wake`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn wake(&self, queue: &str) -> Result<()> {
        run!(self, execute query "wake"(queue)).map(|_| ())
    }
}
