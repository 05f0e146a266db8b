//! A submission, as a value that can be awaited.

use std::time::Duration;

use sqlx::PgConnection;

use super::Result;
use crate::{
    request::JsonText,
    stage::Pending,
    store::{Admission, SameKey, Store, Submission, Submitted},
};

/// A submission that is made when it is awaited.
#[must_use = "a request is submitted when this is awaited"]
pub struct Submit<'a> {
    store: &'a Store,
    submission: Result<Submission>,
    delay: Option<Duration>,
    transaction: Option<&'a mut PgConnection>,
}

impl<'a> Submit<'a> {
    pub(super) fn new(store: &'a Store, kind: &str, payload: Result<JsonText>) -> Self {
        let submission = payload.map(|payload| Submission::new(kind, payload));
        Self { store, submission, delay: None, transaction: None }
    }

    fn with(mut self, change: impl FnOnce(&mut Submission)) -> Self {
        if let Ok(submission) = &mut self.submission {
            change(submission);
        }
        self
    }

    /// The idempotency key: the same key and payload within its time to live is the same request.
    pub fn key(self, key: impl Into<String>) -> Self {
        self.with(|submission| submission.idempotency_key = Some(key.into()))
    }

    /// The key decides alone: a request with the same key is the same, whatever its payload.
    pub fn key_decides(self) -> Self {
        self.with(|submission| submission.same_key = SameKey::Replay)
    }

    /// The submitter, whose quota and keys count.
    pub fn submitter(self, submitter: impl Into<String>) -> Self {
        self.with(|submission| submission.submitter = Some(submitter.into()))
    }

    /// Not refused by gates and quotas: the work was accepted before.
    pub fn accepted(self) -> Self {
        self.with(|submission| submission.admission = Admission::Accepted)
    }

    /// Starts no earlier than after this time.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }

    /// Its place in the program's trace: a `traceparent` of W3C Trace Context. An invalid one is ignored.
    pub fn traceparent(self, traceparent: impl Into<String>) -> Self {
        self.with(|submission| submission.traceparent = Some(traceparent.into()))
    }

    /// Its end is delivered to this URL, of a host that an operator has allowed. A replay keeps that of the first.
    pub fn callback_url(self, url: impl Into<String>) -> Self {
        self.with(|submission| submission.callback_url = Some(url.into()))
    }

    /// Submits in a transaction of the caller's: the request is there if and only if it commits. Its locks last until
    /// then, so end it soon.
    pub fn within(mut self, transaction: &'a mut PgConnection) -> Self {
        self.transaction = Some(transaction);
        self
    }
}

impl<'a> IntoFuture for Submit<'a> {
    type Output = Result<Submitted>;
    type IntoFuture = Pending<'a, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let submission = self.submission?;
            Ok(self.store.submit_within(self.transaction, &submission, self.delay).await?)
        })
    }
}
