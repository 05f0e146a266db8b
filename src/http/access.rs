//! Who calls, and what they may do.
//!
//! Each node keeps a copy of all API keys that is at most a second old, and brought up to date by what has changed. So
//! a call costs no statement, a key that nobody knows costs none either, however many are tried, and a revoked one is
//! refused within a second. When the copy cannot be kept, calls are answered 503: nobody can tell then who may call. Only
//! figures are shown to whoever was known last: they are wanted most when the database is away.
//!
//! As long as there has never been a key, everybody may do everything (and `tidegate serve` listens on loopback only).
//! A node that has seen one key never serves without keys again.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

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

use tokio::time::error::Elapsed;

use super::{
    body,
    problem::{FORBIDDEN, INTERNAL, Problem, UNAUTHENTICATED},
};
use crate::{
    api_key::{ApiKey, KeyHash, Scope},
    error::StoreError,
    local_copy::{Ages, LocalCopy, Source},
    store::{KeyChange, Outlook, Store},
};

/// A revoked key is refused after a second at the latest.
const AGES: Ages = Ages {
    fresh: Duration::from_millis(500),
    usable: Duration::from_secs(1),
};

/// How long whoever wants figures waits for a young copy of the keys.
const FIGURES_PATIENCE: Duration = Duration::from_secs(1);

/// How often all keys are read instead of what has changed: a database that was restored may have gone back.
const WHOLE_EVERY: Duration = Duration::from_secs(60);

/// Keys in one statement.
const BATCH: i32 = 1000;

/// How much of a refused call's body is heard out, so that its sender hears the refusal.
const HEARD_OUT: usize = 1024 * 1024;

/// Tells who calls. Cheap to clone; clones share what they know.
#[derive(Debug, Clone)]
pub(super) struct Access {
    keys: LocalCopy<KeysOf>,
    /// Set for good by the first key seen.
    required: Arc<AtomicBool>,
}

/// Which copy of the keys tells who calls.
#[derive(Debug, Clone, Copy)]
enum Known {
    /// One that is young enough to refuse a revoked key.
    Lately,
    /// The last one, if there is none so young.
    AtLast,
}

#[derive(Debug)]
struct KeysOf(Store);

/// All keys, as of one moment.
#[derive(Debug, Clone)]
struct Keys {
    by_id: Arc<HashMap<String, Arc<Key>>>,
    version: i64,
    read_whole_at: Instant,
}

#[derive(Debug)]
struct Key {
    id: String,
    /// What the records of changes call its holder.
    actor: String,
    hash: KeyHash,
    scopes: Vec<Scope>,
    submitter: String,
    revoked: bool,
}

impl From<KeyChange> for Key {
    fn from(change: KeyChange) -> Self {
        Self {
            actor: format!("key {}", change.id),
            id: change.id,
            hash: change.hash,
            scopes: change.scopes,
            submitter: change.submitter,
            revoked: change.revoked,
        }
    }
}

impl Source for KeysOf {
    type Copy = Keys;

    async fn read(&self, before: Option<Arc<Keys>>) -> Result<Keys, StoreError> {
        let mut keys = match before {
            Some(before) if before.read_whole_at.elapsed() < WHOLE_EVERY => Keys::clone(&before),
            _ => Keys {
                by_id: Arc::default(),
                version: 0,
                read_whole_at: Instant::now(),
            },
        };
        loop {
            let changes = self.0.key_changes(keys.version, BATCH).await?;
            if changes.is_empty() {
                return Ok(keys);
            }
            let by_id = Arc::make_mut(&mut keys.by_id);
            for change in changes {
                keys.version = change.version;
                by_id.insert(change.id.clone(), Arc::new(change.into()));
            }
        }
    }
}

impl Access {
    /// Over the keys of this store; `required` when a key has to be shown even though there is none.
    pub(super) fn new(store: Store, required: bool) -> Self {
        Self {
            keys: LocalCopy::new(KeysOf(store), AGES),
            required: Arc::new(required.into()),
        }
    }

    /// These routes, for callers with this scope.
    pub(super) fn guard<S: Clone + Send + Sync + 'static>(
        &self,
        scope: Scope,
        routes: Router<S>,
    ) -> Router<S> {
        self.guard_by(Known::Lately, scope, routes)
    }

    /// As [`Access::guard`]; while the keys cannot be read, those of the last copy are good at any age.
    pub(super) fn guard_figures<S: Clone + Send + Sync + 'static>(
        &self,
        scope: Scope,
        routes: Router<S>,
    ) -> Router<S> {
        self.guard_by(Known::AtLast, scope, routes)
    }

    fn guard_by<S: Clone + Send + Sync + 'static>(
        &self,
        known: Known,
        scope: Scope,
        routes: Router<S>,
    ) -> Router<S> {
        let guard = (self.clone(), known, scope);
        routes.route_layer(middleware::from_fn_with_state(guard, admit))
    }

    async fn keys(&self, known: Known) -> Result<Arc<Keys>, Arc<StoreError>> {
        let keys = self.keys.get();
        match known {
            Known::Lately => keys.await,
            Known::AtLast => match tokio::time::timeout(FIGURES_PATIENCE, keys).await {
                Ok(Ok(keys)) => Ok(keys),
                outcome => self.keys.last().map_or_else(|| unread(outcome), Ok),
            },
        }
    }

    async fn identify(
        &self,
        headers: &HeaderMap,
        known: Known,
    ) -> Result<Option<Arc<Key>>, Refusal> {
        let keys = match (self.keys(known).await, known) {
            (Ok(keys), _) => keys,
            // Whoever reaches loopback may know what this process knows by itself.
            (Err(_), Known::AtLast) if !self.required.load(Ordering::Relaxed) => return Ok(None),
            (Err(error), _) => return Err(error.into()),
        };
        if keys.by_id.is_empty() {
            if !self.required.load(Ordering::Relaxed) {
                return Ok(None);
            }
        } else {
            self.required.store(true, Ordering::Relaxed);
        }

        let key = shown(headers)?;
        keys.by_id
            .get(key.id())
            .filter(|known| known.hash.is_of(&key) && !known.revoked)
            .map(|known| Some(Arc::clone(known)))
            .ok_or(Refusal::Unknown)
    }

    async fn caller(
        &self,
        headers: &HeaderMap,
        known: Known,
        scope: Scope,
    ) -> Result<Caller, Refusal> {
        let key = self.identify(headers, known).await?;
        if let Some(key) = &key
            && !key.scopes.contains(&scope)
            && !key.scopes.contains(&Scope::Admin)
        {
            return Err(Refusal::Lacks(scope));
        }
        Ok(Caller { scope, key })
    }
}

/// The keys were not read, or not in time.
fn unread(
    outcome: Result<Result<Arc<Keys>, Arc<StoreError>>, Elapsed>,
) -> Result<Arc<Keys>, Arc<StoreError>> {
    outcome.unwrap_or_else(|_| {
        Err(Arc::new(StoreError::Unavailable(
            "the API keys are not read in time".to_owned(),
        )))
    })
}

/// That a call was let in, for answers that outlive it: a stream, or one that is held back.
#[derive(Debug, Clone)]
pub(super) struct Pass {
    access: Access,
    key: Option<Arc<Key>>,
}

impl Pass {
    /// Whether its caller may still be told anything. Costs no statement while the node's copy of the keys is young.
    pub(super) async fn holds(&self) -> Result<(), Refusal> {
        let keys = self.access.keys(Known::Lately).await?;
        let Some(key) = &self.key else {
            // Keys have come into use: whoever is to be told more has to show one.
            let needed = self.access.required.load(Ordering::Relaxed) || !keys.by_id.is_empty();
            return if needed {
                Err(Refusal::Missing)
            } else {
                Ok(())
            };
        };
        match keys.by_id.get(&key.id) {
            Some(known) if !known.revoked => Ok(()),
            _ => Err(Refusal::Unknown),
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
                UNAUTHENTICATED
                    .because("what is in Authorization is no API key: `Bearer tg_…`, once"),
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
            Self::Unavailable(error) => return Problem::from(&*error).into_response(),
        };
        let mut response = problem.into_response();
        if let Ok(challenge) =
            HeaderValue::try_from(format!("Bearer realm=\"tidegate\"{challenge}"))
        {
            response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

/// Lets a call pass when its key has the scope, and notes who calls.
async fn admit(
    State((access, known, scope)): State<(Access, Known, Scope)>,
    mut request: Request,
    next: Next,
) -> Response {
    match access.caller(request.headers(), known, scope).await {
        Ok(caller) => {
            let key = caller.key.clone();
            let pass = Pass { access, key };
            request.extensions_mut().insert(caller);
            request.extensions_mut().insert(pass.clone());
            let mut response = next.run(request).await;
            // For whoever holds the answer back.
            response.extensions_mut().insert(pass);
            response
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

    /// Whether this caller may see this request.
    pub(super) fn sees(&self, request: &Outlook) -> bool {
        self.sees_only()
            .is_none_or(|submitter| request.submitter.as_deref() == Some(submitter))
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
