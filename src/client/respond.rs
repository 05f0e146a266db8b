//! A response of the downstream, as a value that can be awaited.

use sqlx::PgConnection;

use super::{Inner, Result};
use crate::{
    request::{JsonText, RequestId},
    stage::Pending,
    store::{Responded, Response},
};

/// The request that a response is for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// By its id.
    Id(RequestId),
    /// By the reference of its receipt.
    Reference(String),
}

impl Target {
    /// The id, or the reference.
    pub(super) fn parts(self) -> (Option<RequestId>, Option<String>) {
        match self {
            Self::Id(id) => (Some(id), None),
            Self::Reference(reference) => (None, Some(reference)),
        }
    }
}

impl From<RequestId> for Target {
    fn from(id: RequestId) -> Self {
        Self::Id(id)
    }
}

impl From<&str> for Target {
    fn from(reference: &str) -> Self {
        Self::Reference(reference.to_owned())
    }
}

/// A response that is stored when it is awaited.
#[must_use = "a response is stored when this is awaited"]
pub struct Respond<'a> {
    tidegate: &'a Inner,
    to: Target,
    response: Result<JsonText>,
    part: Option<String>,
    accept: Option<bool>,
    transaction: Option<&'a mut PgConnection>,
}

impl<'a> Respond<'a> {
    pub(super) fn new(tidegate: &'a Inner, to: Target, response: Result<JsonText>) -> Self {
        Self { tidegate, to, response, part: None, accept: None, transaction: None }
    }

    /// Which share this is, for a kind that collects several.
    pub fn part(mut self, part: impl Into<String>) -> Self {
        self.part = Some(part.into());
        self
    }

    /// The verdict, for a kind of flow proof.
    pub fn verdict(mut self, accept: bool) -> Self {
        self.accept = Some(accept);
        self
    }

    /// Responds in a transaction of the caller's: the response is there if and only if it commits. Its locks last until
    /// then, so end it soon; an error loses the transaction, unless it goes back to a savepoint. Calls that wait for the
    /// request find its end about a second after the commit.
    pub fn within(mut self, transaction: &'a mut PgConnection) -> Self {
        self.transaction = Some(transaction);
        self
    }
}

impl<'a> IntoFuture for Respond<'a> {
    type Output = Result<Responded>;
    type IntoFuture = Pending<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (id, reference) = self.to.parts();
            let response = Response { id, reference, part: self.part, accept: self.accept, response: self.response? };
            let is_committed = self.transaction.is_none();
            let responded = self.tidegate.store.respond_within(self.transaction, &response).await?;
            if is_committed {
                self.tidegate.waiters.moved(responded.id.zip(responded.status));
            }
            Ok(responded)
        })
    }
}
