//! What ends a request from outside: the downstream's responses, and cancellations.

use serde_json::value::RawValue;
use sqlx::types::Json;
use uuid::Uuid;

use super::{Store, words::decode};
use crate::{
    error::StoreError,
    request::{RequestId, Status},
};

/// A response, share or verdict of the downstream.
#[derive(Debug, Clone)]
pub struct Response {
    /// The request, when the downstream knows it.
    pub id: Option<RequestId>,
    /// The reference of its receipt, otherwise.
    pub reference: Option<String>,
    /// Which share this is, for requests that collect several.
    pub part: Option<String>,
    /// The verdict, for proofs.
    pub accept: Option<bool>,
    /// The response itself, as JSON text.
    pub response: Box<RawValue>,
}

/// What became of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Responded {
    /// The request it was for, when that is known yet.
    pub id: Option<RequestId>,
    /// The request's status now.
    pub status: Option<Status>,
    /// `completed`, `rejected`, `stored`, `duplicate`, `early` or `late`.
    pub outcome: String,
}

/// What became of a wish to cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancelled {
    /// It will not be sent.
    Cancelled,
    /// It was sent already, or has ended.
    NotCancellable(Status),
    /// There is no such request.
    Unknown,
}

impl Store {
    /// Stores a response of the downstream: `tidegate.respond`.
    ///
    /// # Errors
    ///
    /// Unknown request id, a response that does not fit the request's flow, database trouble.
    pub async fn respond(&self, response: &Response) -> Result<Responded, StoreError> {
        let (id, status, outcome): (Option<Uuid>, Option<String>, String) = ask!(
            self,
            sqlx::query_as(include_str!("../../sql/queries/respond.sql"))
                .bind(Json(&response.response))
                .bind(response.id.map(|id| id.0))
                .bind(&response.reference)
                .bind(&response.part)
                .bind(response.accept),
            fetch_one
        );
        Ok(Responded {
            id: id.map(RequestId),
            status: status.map(decode).transpose()?,
            outcome,
        })
    }

    /// Cancels a request that was not sent yet: `tidegate.cancel`.
    ///
    /// # Errors
    ///
    /// Database trouble.
    pub async fn cancel(&self, id: RequestId) -> Result<Cancelled, StoreError> {
        let (outcome, status): (String, Option<String>) = ask!(
            self,
            sqlx::query_as(include_str!("../../sql/queries/cancel.sql")).bind(id.0),
            fetch_one
        );
        Ok(match (outcome.as_str(), status) {
            ("cancelled", _) => Cancelled::Cancelled,
            (_, Some(status)) => Cancelled::NotCancellable(decode(status)?),
            (_, None) => Cancelled::Unknown,
        })
    }
}
