//! The reasons of a request's status and place.

use serde::Serialize;
use serde_json::Value;
use sqlx::FromRow;

use super::Store;
use crate::{error::Result, request::RequestId};

/// One reason: a code for programs, a sentence for people, and the figures in it.
#[derive(Debug, Clone, PartialEq, Eq, FromRow, Serialize)]
pub struct Reason {
    /// Such as `paused`.
    pub reason: String,
    /// A sentence for people.
    pub sentence: String,
    /// The figures of the sentence, by name.
    pub figures: Value,
}

impl Store {
    /// The reasons of a request's status and place, the decisive one first: `tidegate.explain`.
    ///
    /// # Errors
    ///
    /// [`StoreError::UnknownRequest`](crate::error::StoreError::UnknownRequest), a database error.
    pub async fn explain(&self, id: RequestId) -> Result<Vec<Reason>> {
        run!(self, fetch_all query_as "explain.sql"(id.0))
    }
}
