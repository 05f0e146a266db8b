//! What a path names: a kind, or a request of a kind.

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts, RawPathParams},
    http::request::Parts,
};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{
    Api,
    access::Caller,
    problem::{DATABASE_UNAVAILABLE, Problem, UNKNOWN_KIND, UNKNOWN_REQUEST},
};
use crate::{
    request::RequestId,
    store::{Outlook, Store},
};

/// A kind, as a path names it: in kebab case.
#[derive(Debug)]
pub(super) struct KindPath {
    /// The kind, in snake case.
    pub(super) kind: String,
}

impl KindPath {
    fn parse(word: &str) -> Result<Self, Problem> {
        if word.contains('_') {
            return Err(UNKNOWN_KIND.because(format!("paths name kinds with hyphens: /v1/{}", word.replace('_', "-"))));
        }
        let well_formed = word.starts_with(|first: char| first.is_ascii_lowercase())
            && word
                .bytes()
                .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'));
        if !well_formed {
            return Err(UNKNOWN_KIND.because("kinds are lower-case words joined by hyphens"));
        }
        Ok(Self {
            kind: word.replace('-', "_"),
        })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for KindPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        Self::parse(&parameter(parts, state, "kind").await?)
    }
}

/// A request, as a path names it: a kind and an id.
#[derive(Debug)]
pub(super) struct JobPath {
    /// The kind, in snake case.
    kind: String,
    /// The request.
    pub(super) id: RequestId,
    /// Who names it.
    caller: Caller,
    /// Places for those who look for a request.
    looks: Arc<Semaphore>,
}

impl FromRequestParts<Arc<Api>> for JobPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<Api>) -> Result<Self, Problem> {
        let KindPath { kind } = KindPath::from_request_parts(parts, state).await?;
        let id = parameter(parts, state, "job_id").await?;
        let caller = Caller::from_request_parts(parts, state).await?;
        match id.parse() {
            Ok(id) => Ok(Self {
                kind,
                id,
                caller,
                looks: Arc::clone(&state.looks),
            }),
            Err(_) => Err(UNKNOWN_REQUEST.because("a job id is a UUID")),
        }
    }
}

impl JobPath {
    /// The request, if there is one with this id *and* of this kind, *and* the caller may see it.
    pub(super) async fn find(&self, store: &Store) -> Result<Outlook, Problem> {
        let _place = self.place(store).await?;
        match store.outlook(self.id).await? {
            Some(outlook) if self.is_open(&outlook.kind, outlook.submitter.as_deref()) => Ok(outlook),
            _ => Err(unknown(self.id)),
        }
    }

    /// As [`find`](Self::find), for calls that ask nothing else of the request: where it stands is not computed.
    pub(super) async fn authorise(&self, store: &Store) -> Result<(), Problem> {
        let _place = self.place(store).await?;
        match store.owner(self.id).await? {
            Some(owner) if self.is_open(&owner.kind, owner.submitter.as_deref()) => Ok(()),
            _ => Err(unknown(self.id)),
        }
    }

    async fn place(&self, store: &Store) -> Result<SemaphorePermit<'_>, Problem> {
        let patience = store.pool_options().get_acquire_timeout();
        match tokio::time::timeout(patience, self.looks.acquire()).await {
            Ok(Ok(place)) => Ok(place),
            _ => Err(DATABASE_UNAVAILABLE.because("too many requests are being looked for")),
        }
    }

    fn is_open(&self, kind: &str, submitter: Option<&str>) -> bool {
        kind == self.kind && self.caller.sees(submitter)
    }
}

/// There is no such request, or none of that kind, or another submitter's: a caller is not told which.
pub(super) fn unknown(id: RequestId) -> Problem {
    UNKNOWN_REQUEST.because(format!("there is no such request {id}"))
}

/// Where a request is polled.
pub(super) fn location(kind: &str, id: RequestId) -> String {
    format!("/v1/{}/{id}", kind.replace('_', "-"))
}

/// A part of the path by its name in the route, decoded.
pub(super) async fn parameter<S: Send + Sync>(parts: &mut Parts, state: &S, name: &str) -> Result<String, Problem> {
    let not_text = || UNKNOWN_KIND.because("the path is not UTF-8");
    let parameters = RawPathParams::from_request_parts(parts, state)
        .await
        .map_err(|_| not_text())?;
    let value = parameters.iter().find(|(key, _)| *key == name);
    value.map_or_else(|| Err(not_text()), |(_, value)| Ok(value.to_owned()))
}
