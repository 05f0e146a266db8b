//! Audits: contracts, and the transitions of single requests.

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::{Value, value::RawValue};
use sqlx::FromRow;

use super::Store;
use crate::{error::Result, request::RequestId};

/// One assertion of a contract for one stage of one kind, with the observed figure.
#[derive(Debug, Clone, PartialEq, Eq, FromRow, Serialize)]
pub struct ContractRow {
    /// The number of its assertion, from 1.
    pub place: i32,
    /// The kind.
    pub kind: String,
    /// `readiness` or `tx`.
    pub stage: String,
    /// The type of the assertion, such as `timeout_upper_bound`.
    pub r#type: String,
    /// Whether the observed figure is within the bound.
    pub holds: bool,
    /// The observed figure, with its unit.
    pub observed: String,
    /// The asserted bound, with its unit.
    pub bound: String,
    /// The source of the figures, or the cause of a broken bound.
    pub detail: Option<String>,
}

/// One transition of a request; without a number, the summary of all.
#[derive(Debug, Clone, PartialEq, FromRow, Serialize)]
pub struct AuditStep {
    /// Its number, from 1.
    pub transition_no: Option<i32>,
    /// When.
    pub at: Option<DateTime<Utc>>,
    /// How long after the submission, in seconds.
    pub after_seconds: Option<f64>,
    /// The status before; none for an entry.
    pub from_status: Option<String>,
    /// The status from then on.
    pub to_status: Option<String>,
    /// Its cause.
    pub cause: Option<String>,
    /// How many checks or sends had begun.
    pub attempt: Option<i32>,
    /// The worker that held the request.
    pub worker: Option<String>,
    /// Further values of the history; of the summary, its figures.
    pub detail: Option<Value>,
    /// A remark about a legal transition.
    pub remark: Option<String>,
    /// A broken rule or bound.
    pub finding: Option<String>,
}

impl Store {
    /// Compares a contract, a JSON array of assertions, with the database: `tidegate.contract_check`.
    ///
    /// # Errors
    ///
    /// An invalid contract, a database error.
    pub async fn contract_check(&self, assertions: &RawValue) -> Result<Vec<ContractRow>> {
        run!(self, fetch_all query_as "contract_check.sql"(assertions.get()))
    }

    /// The transitions of a request, compared with the rules and the bounds: `tidegate.audit_replay`.
    ///
    /// # Errors
    ///
    /// Unknown request, or one without a history; a database error.
    pub async fn audit_replay(&self, id: RequestId) -> Result<Vec<AuditStep>> {
        run!(self, fetch_all query_as "audit_replay.sql"(id.0))
    }
}
