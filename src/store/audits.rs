//! Audits: contracts, invariants, warnings about the configuration, and the history of a request.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use sqlx::{Connection as _, FromRow};
use uuid::Uuid;

use super::{Store, columns::milliseconds};
use crate::{
    error::Result,
    request::{JsonText, RequestId},
};

/// The statements of this module.
const SQL: &str = include_str!("../../sql/queries/audits.sql");

/// One assertion of a contract for one stage of one kind, with the observed figure.
#[derive(Debug, Clone, PartialEq, FromRow, Serialize)]
pub struct ContractRow {
    /// The number of its assertion, from 1.
    pub place: i32,
    /// The kind.
    pub kind: String,
    /// `readiness` or `tx`.
    pub stage: String,
    /// The type of the assertion, such as `timeout_upper_bound`.
    pub r#type: String,
    /// Its member, such as `W_retry_le`.
    pub member: String,
    /// Whether the observed figure is within the bound.
    pub holds: bool,
    /// The observed figure, with its unit.
    pub observed: String,
    /// The asserted bound, with its unit.
    pub bound: String,
    /// The observed figure as a number, times in milliseconds; none: nothing was measured, or it is no number.
    pub value: Option<f64>,
    /// That number when the baseline was recorded last.
    pub baseline: Option<f64>,
    /// The source of the figures, or the cause of a broken bound.
    pub detail: Option<String>,
}

/// One page of lives that were audited.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct AuditPage {
    /// How many.
    pub examined: i64,
    /// How many of these have ended.
    pub ended: i64,
    /// Those with findings.
    #[sqlx(json)]
    pub wrong: Vec<WrongLife>,
    /// The begin of the next page; none at the end.
    pub next_after: Option<Uuid>,
}

/// A life that breaks rules or bounds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrongLife {
    /// The request.
    pub job_id: Uuid,
    /// Its kind.
    pub kind: String,
    /// Its status.
    pub state: String,
    /// The broken rules and bounds, each after the number of its transition if it is about one.
    pub findings: Vec<String>,
}

/// One transition of a request; without a number, the summary of all, or a finding about the whole.
#[derive(Debug, Clone, PartialEq, FromRow, Serialize)]
pub struct AuditStep {
    /// Its number, from 1.
    pub transition_no: Option<i32>,
    /// When it happened.
    pub at: Option<DateTime<Utc>>,
    /// How long after the submission, in seconds.
    pub after_seconds: Option<f64>,
    /// The status before; none for the submission.
    pub from_status: Option<String>,
    /// The status from then on.
    pub to_status: Option<String>,
    /// Its cause.
    pub cause: Option<String>,
    /// How many checks or sends of the stage had begun by then.
    pub attempt: Option<i32>,
    /// The worker that held the request.
    pub worker: Option<String>,
    /// Further values of the history; of the summary, its figures.
    pub detail: Option<JsonText>,
    /// A remark about a legal transition.
    pub remark: Option<String>,
    /// A broken rule or bound.
    pub finding: Option<String>,
}

/// A condition that holds at any moment.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct Invariant {
    /// Its name; its violation has the same one.
    pub name: String,
    /// The condition, as a sentence.
    pub rule: String,
    /// The query that shows its violations.
    pub query: String,
    /// Whether it can be checked for a [`Slice`]: such an invariant reads all requests or their history.
    pub by_request: bool,
}

/// How often an invariant does not hold.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct Violation {
    /// The invariant's name.
    pub name: String,
    /// How often it is broken.
    pub violations: i64,
    /// The first ten of those.
    pub samples: Vec<String>,
}

/// A combination of settings that is valid and probably not intended.
#[derive(Debug, Clone, PartialEq, Eq, FromRow, Serialize)]
pub struct ConfigurationWarning {
    /// The warning's name.
    pub name: String,
    /// The row that it is about, such as `kind direct`.
    pub subject: String,
    /// A sentence with the figures.
    pub message: String,
}

/// A range of requests by id, and so by age.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Slice {
    /// The first id; none: from the oldest.
    pub from: Option<Uuid>,
    /// The first id after the range; none: to the newest.
    pub before: Option<Uuid>,
}

impl Store {
    /// The contract that the policies of all kinds state now, one assertion each.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn contract_of_kinds(&self) -> Result<Vec<String>> {
        run!(self, fetch_all query_scalar "contract_of_kinds"())
    }

    /// Compares a contract, a JSON array of assertions, with the database: `tidegate.contract_check`.
    ///
    /// # Errors
    ///
    /// An invalid contract, a database error.
    pub async fn contract_check(&self, assertions: &JsonText) -> Result<Vec<ContractRow>> {
        run!(self, fetch_all query_as "contract_check"(assertions.get()))
    }

    /// Stores the observed values of a contract as the baseline of later checks, and then checks it:
    /// `tidegate.contract_record`.
    ///
    /// # Errors
    ///
    /// An invalid contract, a database error.
    pub async fn contract_record(&self, assertions: &JsonText) -> Result<Vec<ContractRow>> {
        run!(self, fetch_all query_as "contract_record"(assertions.get(), self.actor.as_deref()))
    }

    /// One page of lives that were submitted since a time, the oldest first, each compared with the rules and the bounds:
    /// `tidegate.audit_lives`.
    ///
    /// # Errors
    ///
    /// Unknown kind, a database error.
    pub async fn audit_lives(
        &self,
        kind: Option<&str>,
        since: Option<DateTime<Utc>>,
        after: Option<Uuid>,
        batch: i32,
    ) -> Result<AuditPage> {
        run!(self, fetch_one query_as "audit_lives"(kind, since, after, batch))
    }

    /// The transitions of a request, compared with the rules and the bounds: `tidegate.audit_replay`.
    ///
    /// # Errors
    ///
    /// Unknown request, or one without a history; a database error.
    pub async fn audit_replay(&self, id: RequestId) -> Result<Vec<AuditStep>> {
        run!(self, fetch_all query_as "audit_replay"(id.0))
    }

    /// All invariants: the view `tidegate.invariant`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn invariants(&self) -> Result<Vec<Invariant>> {
        run!(self, fetch_all query_as "invariants"())
    }

    /// Settings that are valid and probably not intended: the view `tidegate.configuration_warning`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn configuration_warnings(&self) -> Result<Vec<ConfigurationWarning>> {
        run!(self, fetch_all query_as "configuration_warnings"())
    }

    /// Checks the named invariants in one snapshot, and returns those that do not hold: `tidegate.check_invariants`.
    /// Those with `by_request` are checked for `slice` only. None if the check was cancelled after the time `within`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn check_invariants(
        &self,
        names: &[&str],
        slice: Slice,
        within: Duration,
    ) -> Result<Option<Vec<Violation>>> {
        let mut connection = self.connection().await?;
        let mut transaction = connection.get().begin().await?;
        sqlx::query(statement!("statement_timeout"))
            .bind(format!("{}ms", within.as_millis().max(1)))
            .execute(&mut *transaction)
            .await?;
        let checked = sqlx::query_as(statement!("check_invariants"))
            .bind(names)
            .bind(slice.from)
            .bind(slice.before)
            .fetch_all(&mut *transaction)
            .await;
        match checked {
            Ok(found) => Ok(Some(found)),
            Err(sqlx::Error::Database(error)) if error.code().as_deref() == Some("57014") => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The slice of the length `span` that ends before a request (none: at the newest one), and its number of requests:
    /// `tidegate.invariant_slice`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn invariant_slice(&self, before: Option<Uuid>, span: Duration) -> Result<(Slice, i64)> {
        let (from, requests) = run!(self, fetch_one query_as "invariant_slice"(before, milliseconds(span)))?;
        Ok((Slice { from, before }, requests))
    }
}
