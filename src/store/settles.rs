//! Settles, and the transaction in which an embedder writes the effects of receipts. A settle returns the requests that
//! moved; the lease of any other was lost.

use std::{borrow::Borrow, time::Duration};

use sqlx::{PgConnection, Postgres, postgres::PgArguments, query::QueryAs};
use tracing::Span;

use super::{Lease, Moved, Store, columns::milliseconds};
use crate::{
    error::{Result, StoreError},
    json_text::objection,
    request::RequestError,
    stage::Receipt,
};

/// The statements of this module.
const SQL: &str = include_str!("../../sql/queries/settles.sql");

/// What came of a check or a send.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The check passed.
    Passed,
    /// The check is to be made again.
    Snoozed(Snooze),
    /// The check failed permanently.
    CheckFailed(RequestError),
    /// The downstream took it.
    Receipt(Receipt),
    /// The send is worth another attempt.
    Retry(Retry),
    /// The downstream refused it permanently.
    Rejected(RequestError),
    /// The call has not begun.
    Released,
}

impl Outcome {
    /// Its word in SQL.
    const fn word(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Snoozed(Snooze { error: None, .. }) => "snoozed",
            Self::Snoozed(_) | Self::Retry(_) => "retry",
            Self::Receipt(_) => "receipt",
            Self::CheckFailed(_) | Self::Rejected(_) => "rejected",
            Self::Released => "released",
        }
    }

    /// Another check, when the policy allows it.
    #[must_use]
    pub const fn snoozed(after: Option<Duration>, error: Option<RequestError>) -> Self {
        Self::Snoozed(Snooze { after, error })
    }

    /// Another attempt, when the policy allows it; the request may have left.
    #[must_use]
    pub const fn retry(error: RequestError) -> Self {
        Self::Retry(Retry { error, after: None, may_have_left: true })
    }

    /// Another attempt, after one that has not sent.
    #[must_use]
    pub const fn unsent(error: RequestError) -> Self {
        Self::Retry(Retry { error, after: None, may_have_left: false })
    }

    /// Its error, if it has one.
    #[must_use]
    pub const fn error(&self) -> Option<&RequestError> {
        match self {
            Self::Snoozed(snooze) => snooze.error.as_ref(),
            Self::Retry(retry) => Some(&retry.error),
            Self::CheckFailed(error) | Self::Rejected(error) => Some(error),
            Self::Passed | Self::Receipt(_) | Self::Released => None,
        }
    }

    fn after(&self) -> Option<Duration> {
        match self {
            Self::Snoozed(snooze) => snooze.after,
            Self::Retry(retry) => retry.after,
            _ => None,
        }
    }

    fn receipt(&self) -> Option<&Receipt> {
        match self {
            Self::Receipt(receipt) => Some(receipt),
            _ => None,
        }
    }
}

/// An outcome with the lease it settles, and figures of its call.
#[derive(Debug, Clone, PartialEq)]
pub struct Settle<T = Outcome> {
    /// The lease of the request.
    pub lease: Lease,
    /// The outcome.
    pub outcome: T,
    /// How long the stage's call took; none: as long as the lease is held.
    pub took: Option<Duration>,
    /// Calls that were made beyond the first, to hedge it.
    pub hedges: u32,
    /// The span of the attempt, if the program exports it: it ends with this value.
    pub span: Option<Span>,
}

impl<T> Settle<T> {
    /// An outcome without figures of its call.
    pub const fn new(lease: Lease, outcome: T) -> Self {
        Self { lease, outcome, took: None, hedges: 0, span: None }
    }

    /// The same call with another outcome.
    pub(crate) fn with<U>(&self, outcome: U) -> Settle<U> {
        Settle { lease: self.lease, outcome, took: self.took, hedges: self.hedges, span: self.span.clone() }
    }
}

/// A check that snoozes its request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snooze {
    /// The wait that the dependency asks for.
    pub after: Option<Duration>,
    /// Why the check itself failed; none: it has answered no.
    pub error: Option<RequestError>,
}

/// A send that is worth another attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// Why this one did not succeed.
    pub error: RequestError,
    /// The wait that the downstream asks for.
    pub after: Option<Duration>,
    /// Whether the request may have left.
    pub may_have_left: bool,
}

type Query<'q> = QueryAs<'q, Postgres, Moved, PgArguments>;

/// The statement that settles outcomes, which are storable.
fn query<'q, T: Borrow<Outcome>>(queue: &'q str, settles: &'q [Settle<T>]) -> Result<Query<'q>> {
    let outcomes = || settles.iter().map(|settle| settle.outcome.borrow());
    let receipts = || outcomes().map(Outcome::receipt);
    receipts().flatten().try_for_each(check_response)?;
    let whole = |took: Duration| i32::try_from(took.as_millis()).unwrap_or(i32::MAX);
    let hedges = |settle: &Settle<T>| i32::try_from(settle.hedges).unwrap_or(i32::MAX);
    let (first, rest) = (outcomes().next().map(Outcome::word), outcomes().map(Outcome::word));
    // One for all, if they are the same.
    let words: Vec<_> =
        if rest.clone().all(|word| Some(word) == first) { first.into_iter().collect() } else { rest.collect() };
    let query = sqlx::query_as(statement!("settle"))
        .bind(queue)
        .bind(settles.iter().map(|settle| settle.lease.token).collect::<Vec<_>>())
        .bind(settles.iter().map(|settle| settle.lease.id).collect::<Vec<_>>())
        .bind(words)
        .bind(column(outcomes().map(|outcome| outcome.error().map(RequestError::to_json))))
        .bind(column(outcomes().map(|outcome| outcome.after().map(milliseconds))))
        .bind(column(outcomes().map(|outcome| match outcome {
            Outcome::Retry(retry) => Some(retry.may_have_left),
            _ => None,
        })))
        .bind(column(receipts().map(|receipt| receipt.and_then(|receipt| receipt.reference.as_deref()))))
        .bind(column(receipts().map(|receipt| receipt.and_then(|receipt| receipt.response.as_ref()))))
        .bind(column(settles.iter().map(|settle| settle.took.map(whole))))
        .bind(column(settles.iter().map(|settle| Some(hedges(settle)).filter(|hedges| *hedges > 0))));
    Ok(query)
}

/// One value for each outcome; `None` if none has one.
fn column<V>(values: impl Iterator<Item = Option<V>>) -> Option<Vec<Option<V>>> {
    let values: Vec<_> = values.collect();
    values.iter().any(Option::is_some).then_some(values)
}

/// Refuses a response that HTTP refuses, too: no poll could return it.
pub(super) fn check_response(receipt: &Receipt) -> Result<()> {
    let response = receipt.response.as_ref();
    match response.and_then(|response| objection(response.get().as_bytes())) {
        None => Ok(()),
        Some(why) => Err(StoreError::Unstorable(why)),
    }
}

impl Store {
    /// Settles outcomes of requests of one queue: `tidegate.settle`.
    ///
    /// # Errors
    ///
    /// A response that cannot be stored, a database error.
    pub async fn settle<T: Borrow<Outcome>>(&self, queue: &str, settles: &[Settle<T>]) -> Result<Vec<Moved>> {
        run!(self, query(queue, settles)?, fetch_all)
    }

    /// [`settle`](Self::settle) in a transaction of the caller's. A write for each returned request in the same
    /// transaction is there exactly once for each request that moved. The messages and rows stay locked until the commit.
    ///
    /// # Errors
    ///
    /// A response that cannot be stored, a database error. The transaction is lost then.
    pub async fn settle_in<T: Borrow<Outcome>>(
        &self,
        transaction: &mut PgConnection,
        queue: &str,
        settles: &[Settle<T>],
    ) -> Result<Vec<Moved>> {
        let moved = query(queue, settles)?.fetch_all(transaction).await;
        self.errors.record(moved.map_err(StoreError::from), &self.pool)
    }

    /// Returns the id of a transaction that has begun, and limits each of its statements to `limit`.
    pub(crate) async fn begin_effects(&self, transaction: &mut PgConnection, limit: Duration) -> Result<String> {
        let begun = sqlx::query_scalar(statement!("effects_begin"))
            .bind(milliseconds(limit).max(1))
            .fetch_one(transaction)
            .await;
        self.errors.record(begun.map_err(StoreError::from), &self.pool)
    }

    /// Makes sure that the transaction is still the same: after an end of it each statement would commit by itself; and
    /// that it has not failed: PostgreSQL answers the commit of a failed one without an error.
    pub(crate) async fn check_effects(&self, transaction: &mut PgConnection, begun: &str) -> Result<()> {
        let query = sqlx::query_scalar(statement!("effects_check"));
        let now: Option<String> = query.fetch_one(transaction).await?;
        if now.as_deref() == Some(begun) {
            return Ok(());
        }
        Err(StoreError::Misuse("the effect has ended the transaction of its receipt".to_owned()))
    }
}
