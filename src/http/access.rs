//! Who calls, and what they may do.
//!
//! Each node keeps a copy of all API keys that is at most a second old, and brought up to date by what has changed. So
//! a call costs no statement, a key that nobody knows costs none either, however many are tried, and a revoked one is
//! refused within a second. When the copy cannot be kept, calls are answered 503: nobody can tell then who may call.
//! Only figures are shown by the last copy, however old: monitoring must not be blind just then.
//!
//! As long as there has never been a key, everybody may do everything (and `tidegate serve` listens on loopback only).
//! A node that has seen one key never serves without keys again.

mod keys;

use std::sync::Arc;

use axum::{
    Router,
    extract::{FromRequestParts, Request, State},
    http::{
        HeaderMap, HeaderValue,
        header::{AUTHORIZATION, WWW_AUTHENTICATE},
        request::Parts,
    },
    middleware::{self, Next},
    response::{IntoResponse, Response},
};

use self::keys::{Freshness, Key, KnownKeys};
use super::{
    body, origin,
    problem::{FORBIDDEN, FOREIGN_ORIGIN, INTERNAL, Problem, UNAUTHENTICATED},
};
use crate::{
    api_key::{ApiKey, Scope},
    error::StoreError,
    store::Store,
};

/// How much of a refused call's body is heard out, so that its sender hears the refusal.
const HEARD_OUT: usize = 1024 * 1024;

/// Tells who calls. Cheap to clone; clones share what they know.
#[derive(Debug, Clone)]
pub(super) struct Access {
    keys: Arc<KnownKeys>,
    freshness: Freshness,
}

impl Access {
    /// Over the keys of this store; `required` when a key has to be shown even though there is none.
    pub(super) fn new(store: Store, required: bool) -> Self {
        Self {
            keys: Arc::new(KnownKeys::new(store, required)),
            freshness: Freshness::Second,
        }
    }

    /// The same, for routes that are served without the database, too.
    pub(super) fn as_far_as_known(&self) -> Self {
        Self {
            keys: Arc::clone(&self.keys),
            freshness: Freshness::Any,
        }
    }

    /// These routes, for callers with this scope.
    pub(super) fn guard<S: Clone + Send + Sync + 'static>(&self, scope: Scope, routes: Router<S>) -> Router<S> {
        let guard = (self.clone(), scope);
        routes.route_layer(middleware::from_fn_with_state(guard, admit))
    }

    async fn identify(&self, headers: &HeaderMap) -> Result<Option<Arc<Key>>, Refusal> {
        let Some(keys) = self.keys.required(self.freshness).await? else {
            return if origin::is_local(headers) {
                Ok(None)
            } else {
                Err(Refusal::Foreign)
            };
        };
        let key = shown(headers)?;
        keys.get(key.id())
            .filter(|known| known.hash.is_of(&key) && !known.revoked)
            .map(|known| Some(Arc::clone(known)))
            .ok_or(Refusal::Unknown)
    }

    async fn caller(&self, headers: &HeaderMap, scope: Scope) -> Result<Caller, Refusal> {
        let key = self.identify(headers).await?;
        if let Some(key) = &key
            && !key.scopes.contains(&scope)
            && !key.scopes.contains(&Scope::Admin)
        {
            return Err(Refusal::Lacks(scope));
        }
        Ok(Caller { scope, key })
    }
}

/// That a call was let in, for answers that come much later: a stream, or the end of a wait.
#[derive(Debug, Clone)]
pub(super) struct Pass {
    access: Access,
    key: Option<Arc<Key>>,
}

impl Pass {
    /// Whether its caller may still be told anything. Costs no statement while the node's copy of the keys is young.
    pub(super) async fn holds(&self) -> Result<(), Refusal> {
        let keys = self.access.keys.required(Freshness::Second).await?;
        match (&self.key, keys) {
            (None, None) => Ok(()),
            // Keys have come into use: whoever is to be told more has to show one.
            (None, Some(_)) => Err(Refusal::Missing),
            (Some(key), keys) => match keys.as_ref().and_then(|keys| keys.get(&key.id)) {
                Some(known) if !known.revoked => Ok(()),
                _ => Err(Refusal::Unknown),
            },
        }
    }
}

/// The key that a call shows: `Authorization: Bearer tg_…`, once.
fn shown(headers: &HeaderMap) -> Result<ApiKey, Refusal> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next().ok_or(Refusal::Missing)?;
    if values.next().is_some() {
        return Err(Refusal::Malformed);
    }
    let (scheme, key) = value
        .to_str()
        .ok()
        .and_then(|text| text.split_once(' '))
        .ok_or(Refusal::Malformed)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(Refusal::Malformed);
    }
    ApiKey::parse(key.trim_matches(' ')).map_err(|_| Refusal::Malformed)
}

/// Why a call goes no further.
#[derive(Debug)]
pub(super) enum Refusal {
    Missing,
    Malformed,
    Unknown,
    Lacks(Scope),
    /// A web page calls, and nobody has to show a key.
    Foreign,
    /// Nobody can tell just now who may call.
    Unavailable(Arc<StoreError>),
}

impl From<Arc<StoreError>> for Refusal {
    fn from(error: Arc<StoreError>) -> Self {
        Self::Unavailable(error)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (problem, challenge) = match self {
            Self::Missing => (
                UNAUTHENTICATED.because("show an API key: `Authorization: Bearer tg_…`"),
                String::new(),
            ),
            Self::Malformed => (
                UNAUTHENTICATED.because("what is in Authorization is no API key: `Bearer tg_…`, once"),
                r#", error="invalid_token""#.to_owned(),
            ),
            Self::Unknown => (
                UNAUTHENTICATED.because("nobody knows this API key, or it was revoked"),
                r#", error="invalid_token""#.to_owned(),
            ),
            Self::Lacks(scope) => (
                FORBIDDEN.because(format!("this call needs a key with the scope {scope}")),
                format!(r#", error="insufficient_scope", scope="{scope}""#),
            ),
            Self::Foreign => (
                FOREIGN_ORIGIN
                    .because("without API keys this node serves programs on its own machine, and no web pages"),
                String::new(),
            ),
            Self::Unavailable(error) => return Problem::from(&*error).into_response(),
        };
        let mut response = problem.into_response();
        if let Ok(challenge) = HeaderValue::try_from(format!("Bearer realm=\"tidegate\"{challenge}")) {
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

/// Lets a call pass when its key has the scope, and notes who calls.
async fn admit(State((access, scope)): State<(Access, Scope)>, mut request: Request, next: Next) -> Response {
    match access.caller(request.headers(), scope).await {
        Ok(caller) => {
            let key = caller.key.clone();
            let pass = Pass { access, key };
            request.extensions_mut().insert(caller);
            request.extensions_mut().insert(pass);
            next.run(request).await
        }
        Err(refusal) => {
            body::hear_out(request, HEARD_OUT).await;
            refusal.into_response()
        }
    }
}

/// Who calls, and under which scope the call was let in.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    scope: Scope,
    /// None: nobody has to show a key.
    key: Option<Arc<Key>>,
}

impl Caller {
    /// Whose requests this caller submits.
    pub(super) fn submitter(&self) -> Option<&str> {
        self.key.as_deref().map(|key| key.submitter.as_str())
    }

    /// What the records of changes call this caller; `None`: nobody has to show a key.
    pub(super) fn name(&self) -> Option<&str> {
        self.key.as_deref().map(|key| key.actor.as_str())
    }

    /// Whose requests this caller may see; `None`: everybody's.
    pub(super) fn sees_only(&self) -> Option<&str> {
        let key = self.key.as_deref()?;
        let everybody = self.scope == Scope::Respond || key.scopes.contains(&Scope::Admin);
        (!everybody).then_some(key.submitter.as_str())
    }

    /// Whether this caller may see the requests of this submitter.
    pub(super) fn sees(&self, submitter: Option<&str>) -> bool {
        self.sees_only().is_none_or(|own| submitter == Some(own))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get().cloned().ok_or_else(|| {
            tracing::error!(path = parts.uri.path(), "a route has no guard");
            INTERNAL.because("the server's log says what happened")
        })
    }
}
