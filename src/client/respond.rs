//! Responses of the downstream, as values that can be awaited.

use serde::Serialize;
use sqlx::PgConnection;

use super::{Inner, Result, json_text};
use crate::{
    request::RequestId,
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

impl Response {
    /// A response to a request, by its id or by the reference of its receipt.
    ///
    /// # Errors
    ///
    /// It is no JSON, or none that can be stored.
    pub fn new(to: impl Into<Target>, response: &impl Serialize) -> Result<Self> {
        let (id, reference) = to.into().parts();
        Ok(Self { id, reference, part: None, accept: None, response: json_text(response)? })
    }

    /// Names the share that this is, for a kind that collects several.
    #[must_use]
    pub fn part(mut self, part: impl Into<String>) -> Self {
        self.part = Some(part.into());
        self
    }

    /// Sets the verdict, for a kind of flow proof.
    #[must_use]
    pub fn verdict(mut self, accept: bool) -> Self {
        self.accept = Some(accept);
        self
    }
}

/// A response that is stored when it is awaited.
#[must_use = "a response is stored when this is awaited"]
pub struct Respond<'a> {
    tidegate: &'a Inner,
    response: Result<Response>,
    transaction: Option<&'a mut PgConnection>,
}

impl<'a> Respond<'a> {
    pub(super) fn new(tidegate: &'a Inner, response: Result<Response>) -> Self {
        Self { tidegate, response, transaction: None }
    }

    /// Names the share that this is, for a kind that collects several.
    pub fn part(mut self, part: impl Into<String>) -> Self {
        self.response = self.response.map(|response| response.part(part));
        self
    }

    /// Sets the verdict, for a kind of flow proof.
    pub fn verdict(mut self, accept: bool) -> Self {
        self.response = self.response.map(|response| response.verdict(accept));
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
            let is_committed = self.transaction.is_none();
            let responded = self.tidegate.store.respond_within(self.transaction, &self.response?, None).await?;
            if is_committed {
                self.tidegate.waiters.moved(responded.id.zip(responded.status));
            }
            Ok(responded)
        })
    }
}

/// Responses that are stored together when this is awaited; each has a result of its own, in their order.
#[must_use = "responses are stored when this is awaited"]
pub struct RespondMany<'a> {
    tidegate: &'a Inner,
    responses: &'a [Response],
    transaction: Option<&'a mut PgConnection>,
}

impl<'a> RespondMany<'a> {
    pub(super) fn new(tidegate: &'a Inner, responses: &'a [Response]) -> Self {
        Self { tidegate, responses, transaction: None }
    }

    /// Responds in a transaction of the caller's, as [`Respond::within`] does. A response that is refused is an outcome,
    /// and does not lose the transaction.
    pub fn within(mut self, transaction: &'a mut PgConnection) -> Self {
        self.transaction = Some(transaction);
        self
    }
}

impl<'a> IntoFuture for RespondMany<'a> {
    type Output = Result<Vec<Result<Responded>>>;
    type IntoFuture = Pending<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            if self.responses.is_empty() {
                return Ok(Vec::new());
            }
            let store = &self.tidegate.store;
            let results = match self.transaction {
                Some(transaction) => store.respond_many_within(Some(transaction), self.responses, None).await?,
                None => {
                    let results = store.respond_many(self.responses, None).await?;
                    let responded = results.iter().flatten();
                    self.tidegate.waiters.moved(responded.filter_map(|responded| responded.id.zip(responded.status)));
                    results
                }
            };
            Ok(results.into_iter().map(|result| result.map_err(Into::into)).collect())
        })
    }
}
