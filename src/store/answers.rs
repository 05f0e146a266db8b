//! The downstream's responses, and cancellations.

use serde_json::value::RawValue;
use sqlx::{FromRow, types::Json};

use super::Store;
use crate::{
    error::Result,
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

/// The outcome of a response.
#[derive(Debug, Clone, PartialEq, Eq, FromRow)]
pub struct Responded {
    /// The request it was for; none when the receipt with its reference has not come yet.
    #[sqlx(rename = "request_id")]
    pub id: Option<RequestId>,
    /// The request's status now.
    pub status: Option<Status>,
    /// `completed`, `rejected`, `stored`, `duplicate`, `early` or `late`.
    pub outcome: String,
}

/// The outcome of a cancellation.
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
    /// Unknown request id, a response that does not fit the request's flow, a database error.
    pub async fn respond(&self, response: &Response) -> Result<Responded> {
        run!(self, fetch_one query_as "respond.sql"(
            Json(&response.response), response.id.map(|id| id.0), &response.reference, &response.part, response.accept
        ))
    }

    /// Cancels a request that was not sent yet: `tidegate.cancel`.
    ///
    /// # Errors
    ///
    /// A database error.
    pub async fn cancel(&self, id: RequestId) -> Result<Cancelled> {
        let (outcome, status): (String, Option<Status>) = run!(self, fetch_one query_as "cancel.sql"(id.0))?;
        Ok(match (outcome.as_str(), status) {
            ("cancelled", _) => Cancelled::Cancelled,
            (_, Some(status)) => Cancelled::NotCancellable(status),
            (_, None) => Cancelled::Unknown,
        })
    }
}
