//! What is held against the rules: contracts, and the lives of single requests.

use chrono::{DateTime, Utc};
use serde::Serialize;
use serde_json::{Value, value::RawValue};
use sqlx::FromRow;

use super::Store;
use crate::{error::StoreError, request::RequestId};

/// One thing that a contract asserts of one stage of one kind, and what is there.
#[derive(Debug, Clone, PartialEq, Eq, FromRow, Serialize)]
pub struct ContractRow {
    /// Which assertion it is of, from 1.
    pub place: i32,
    /// The kind.
    pub kind: String,
    /// `readiness` or `tx`.
    pub stage: String,
    /// The type of the assertion, such as `timeout_upper_bound`.
    pub r#type: String,
    /// Whether what was observed is within the bound.
    pub holds: bool,
    /// What was observed, with its unit.
    pub observed: String,
    /// What was asserted, with its unit.
    pub bound: String,
    /// What the figures are made of, or what breaks the bound.
    pub detail: Option<String>,
}

/// One step of a request's life; without a number, what is to be said about the whole.
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
    /// What brought it about.
    pub cause: Option<String>,
    /// How many checks or sends had begun.
    pub attempt: Option<i32>,
    /// The worker that held the request.
    pub worker: Option<String>,
    /// What the history keeps besides; of the whole, its figures.
    pub detail: Option<Value>,
    /// What is legal and worth knowing.
    pub remark: Option<String>,
    /// What is wrong.
    pub finding: Option<String>,
}

impl Store {
    /// Holds a contract, a JSON array of assertions, against the database: `tidegate.contract_check`.
    ///
    /// # Errors
    ///
    /// What is no contract, a database error.
    pub async fn contract_check(&self, assertions: &RawValue) -> Result<Vec<ContractRow>, StoreError> {
        run!(self, fetch_all query_as "contract_check.sql"(assertions.get()))
    }

    /// A request's life, step by step, held against the rules and the bounds: `tidegate.audit_replay`.
    ///
    /// # Errors
    ///
    /// Unknown request, or one without a history; a database error.
    pub async fn audit_replay(&self, id: RequestId) -> Result<Vec<AuditStep>, StoreError> {
        run!(self, fetch_all query_as "audit_replay.sql"(id.0))
    }
}
