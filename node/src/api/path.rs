//! The parameters of paths: a kind, or a request of a kind.

use std::sync::Arc;

use axum::{
    extract::{FromRequestParts, RawPathParams},
    http::request::Parts,
};
use tidegate::{
    internals::store::{Progress, Store},
    request::RequestId,
};
use tokio::sync::SemaphorePermit;
use utoipa::IntoParams;

use super::{
    context::Api,
    problem::{DATABASE_UNAVAILABLE, Problem, UNKNOWN_KIND, UNKNOWN_REQUEST},
};
use crate::state::{access::Caller, outlooks::Outlooks};

/// A path that names a kind. Paths use kebab case, the field has snake case.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct KindPath {
    /// The kind of request, in kebab case: `direct`, `public-decrypt`, `user-decrypt`, `input-proof`, or one of the
    /// operator's own.
    #[param(pattern = "^[a-z][a-z0-9-]*$", example = "direct")]
    pub(super) kind: String,
}

impl<S: Send + Sync> FromRequestParts<S> for KindPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let word = parameter(parts, state, "kind").await?;
        let kebab = word.replace('_', "-");
        if word != kebab {
            return Err(UNKNOWN_KIND.because(format!("paths name kinds with hyphens: /v1/{kebab}")));
        }
        let is_plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
        if !word.starts_with(|first: char| first.is_ascii_lowercase()) || !word.bytes().all(is_plain) {
            return Err(UNKNOWN_KIND.because("kinds are lower-case words joined by hyphens"));
        }
        let kind = word.replace('-', "_");
        Ok(Self { kind })
    }
}

/// A path that names a request by kind and id.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(super) struct JobPath {
    /// The kind of request, in kebab case.
    #[param(pattern = "^[a-z][a-z0-9-]*$", example = "direct")]
    kind: String,
    /// The id that the submission was answered with.
    #[param(rename = "job_id", value_type = uuid::Uuid, example = "01a1f8bb-a1f9-70c0-84de-b7fe94f3591c")]
    pub(super) id: RequestId,
    #[param(ignore)]
    pub(super) caller: Caller,
    #[param(ignore)]
    api: Arc<Api>,
}

impl FromRequestParts<Arc<Api>> for JobPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<Api>) -> Result<Self, Problem> {
        let KindPath { kind } = KindPath::from_request_parts(parts, state).await?;
        let id = parameter(parts, state, "job_id").await?;
        Ok(Self {
            kind,
            caller: Caller::from_request_parts(parts, state).await?,
            id: id.parse().map_err(|_| UNKNOWN_REQUEST.because("a job id is a UUID"))?,
            api: Arc::clone(state),
        })
    }
}

impl JobPath {
    /// Where the request stands, and its transitions after `known`, if the id and the kind are its own and the caller may
    /// read it.
    pub(super) async fn find(&self, outlooks: &Outlooks, known: Option<i32>) -> Result<Progress, Problem> {
        let progress = outlooks.read(self.id, known).await;
        match progress.map_err(|error| Problem::from(&*error))? {
            Some(progress) if self.caller.may_poll(&self.kind, &progress.outlook) => Ok(progress),
            _ => Err(unknown(self.id)),
        }
    }

    /// Makes sure that the id and the kind are those of a request of the caller's own, or that it may read all.
    pub(super) async fn authorise(&self, store: &Store) -> Result<(), Problem> {
        let _permit = lookup_permit(&self.api, store).await?;
        match store.owner(self.id).await? {
            Some(owner) if owner.kind == self.kind && self.caller.may_read(owner.submitter.as_deref()) => Ok(()),
            _ => Err(unknown(self.id)),
        }
    }
}

/// A permit to read requests by their ids.
pub(super) async fn lookup_permit<'a>(api: &'a Api, store: &Store) -> Result<SemaphorePermit<'a>, Problem> {
    let permit = api.node.lookup(store).await;
    permit.ok_or_else(|| DATABASE_UNAVAILABLE.because("too many calls read requests at once"))
}

/// The same answer for a request that does not exist, is of another kind or belongs to another submitter.
pub(super) fn unknown(id: RequestId) -> Problem {
    UNKNOWN_REQUEST.because(format!("there is no such request {id}"))
}

/// The path at which a request is polled.
pub(super) fn location(kind: &str, id: RequestId) -> String {
    format!("/v1/{}/{id}", kind.replace('_', "-"))
}

/// The address at which several requests are polled together.
pub(super) fn batch_location(kind: &str, ids: &[RequestId]) -> String {
    let ids: Vec<_> = ids.iter().map(|id| format!("id={id}")).collect();
    format!("/v1/{}?{}", kind.replace('_', "-"), ids.join("&"))
}

/// A parameter of the path by its name in the route, decoded.
pub(super) async fn parameter<S: Send + Sync>(parts: &mut Parts, state: &S, name: &str) -> Result<String, Problem> {
    let parameters = RawPathParams::from_request_parts(parts, state).await.ok();
    let value = parameters.iter().flatten().find(|(key, _)| *key == name);
    value.map(|(_, value)| value.to_owned()).ok_or_else(|| UNKNOWN_KIND.because("the path is not UTF-8"))
}
