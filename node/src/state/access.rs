//! Authentication of callers by API keys, and authorisation by the scopes of the keys.
//!
//! Each node keeps a copy of all API keys that is at most a second old, and updates it with the changes since. So
//! neither a known nor an unknown key costs a statement, however many are tried, and a revoked key is refused within a
//! second. When the copy cannot be updated, calls are answered 503, because callers cannot be authenticated. Only
//! metrics are served by the last copy, however old: monitoring must work during an outage of the database.
//!
//! As long as no key was ever created, every caller has every permission (and `tidegate serve` listens on loopback
//! only). A node that has read a key never serves without keys again.

mod keys;

use std::sync::Arc;

use axum::http::{HeaderMap, header::AUTHORIZATION, request::Parts};
use tidegate::internals::{
    api_key::{ApiKey, Scope},
    error::StoreError,
    store::{KeyChange, Outlook, Store},
};

use self::keys::KnownKeys;
use super::{
    node_options::{Keys, NodeOptions},
    origin,
};

/// Authenticates callers. Cheap to clone; clones share the copy of the keys.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    keys: Arc<KnownKeys>,
    /// Whether the last copy authenticates when the keys cannot be read.
    accepts_old: bool,
}

impl Access {
    /// Over the keys of this store; `required` when calls need a key even though none exists.
    pub(crate) fn new(store: Store, required: bool) -> Self {
        Self { keys: Arc::new(KnownKeys::new(store, required)), accepts_old: false }
    }

    /// The same, for routes that are also served without the database.
    pub(crate) fn with_old_keys(&self) -> Self {
        Self { keys: Arc::clone(&self.keys), accepts_old: true }
    }

    /// The caller of a route of the API, by its header `Authorization`.
    pub(crate) async fn bearer(&self, headers: &HeaderMap, scope: Scope) -> Result<Caller, Refusal> {
        self.caller(headers, scope, || bearer_key(headers)).await
    }

    /// The caller of a call with these headers. `shown` reads its key, and runs only if calls need one.
    async fn caller(
        &self,
        headers: &HeaderMap,
        scope: Scope,
        shown: impl FnOnce() -> Result<ApiKey, Refusal> + Send,
    ) -> Result<Caller, Refusal> {
        let keys = self.keys.required(self.accepts_old).await;
        match keys.map_err(Refusal::Unavailable)? {
            None => self.without_key(headers, scope),
            Some(keys) => self.of_key(keys.live(&shown()?), scope),
        }
    }

    /// Whether calls need a key.
    pub(crate) async fn needs_keys(&self) -> Result<bool, Refusal> {
        Ok(self.keys.required(false).await.map_err(Refusal::Unavailable)?.is_some())
    }

    /// A caller from this machine, while calls need no key.
    pub(crate) fn without_key(&self, headers: &HeaderMap, scope: Scope) -> Result<Caller, Refusal> {
        if origin::is_local(headers) {
            Ok(Caller { access: self.clone(), scope, key: None })
        } else {
            Err(Refusal::Foreign)
        }
    }

    /// The caller who shows this key to sign in.
    pub(crate) async fn shown(&self, key: &ApiKey, scope: Scope) -> Result<Caller, Refusal> {
        let keys = self.keys.required(self.accepts_old).await.map_err(Refusal::Unavailable)?.ok_or(Refusal::Unknown)?;
        self.of_key(keys.live(key), scope)
    }

    /// The caller who has signed in with the key of this id.
    pub(crate) async fn in_session(&self, id: &str, scope: Scope) -> Result<Caller, Refusal> {
        let keys = self.keys.required(self.accepts_old).await.map_err(Refusal::Unavailable)?.ok_or(Refusal::Unknown)?;
        self.of_key(keys.get(id).filter(|known| !known.revoked), scope)
    }

    fn of_key(&self, known: Option<&Arc<KeyChange>>, scope: Scope) -> Result<Caller, Refusal> {
        let key = Some(Arc::clone(known.ok_or(Refusal::Unknown)?));
        let caller = Caller { access: self.clone(), scope, key };
        caller.require(scope)?;
        Ok(caller)
    }

    /// The caller of a program's own route.
    pub(crate) async fn program_caller(
        &self,
        call: &Parts,
        scope: Scope,
        NodeOptions { keys, credentials, .. }: &NodeOptions,
    ) -> Result<Caller, Refusal> {
        let shown = || match credentials {
            Some(find) => ApiKey::parse(&find(call).ok_or(Refusal::Missing)?).map_err(|_| Refusal::Malformed),
            None => bearer_key(&call.headers),
        };
        let is_anonymous = match keys {
            Keys::Off => true,
            Keys::Optional => matches!(shown(), Err(Refusal::Missing)),
            Keys::OnceCreated | Keys::Required => false,
        };
        // Without a key a caller submits and polls, and administers nothing.
        if is_anonymous && scope == Scope::Submit {
            let (access, key) = (self.clone(), None);
            return Ok(Caller { access, scope, key });
        }
        self.caller(&call.headers, scope, shown).await
    }
}

/// The key of a call: `Authorization: Bearer tg_…`, once.
fn bearer_key(headers: &HeaderMap) -> Result<ApiKey, Refusal> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next().ok_or(Refusal::Missing)?;
    if values.next().is_some() {
        return Err(Refusal::Malformed);
    }
    let scheme_and_key = value.to_str().ok().and_then(|text| text.split_once(' '));
    match scheme_and_key.ok_or(Refusal::Malformed)? {
        (scheme, key) if scheme.eq_ignore_ascii_case("bearer") => {
            ApiKey::parse(key.trim_matches(' ')).map_err(|_| Refusal::Malformed)
        }
        _ => Err(Refusal::Malformed),
    }
}

/// Why a call is refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// It has no key.
    #[error("send an API key: `Authorization: Bearer tg_…`")]
    Missing,
    /// What it shows is no key.
    #[error("Authorization has no API key: `Bearer tg_…`, once")]
    Malformed,
    /// There is no such key, or it was revoked.
    #[error("this API key is unknown or was revoked")]
    Unknown,
    /// The key does not have the scope that the call needs.
    #[error("this call needs a key with the scope {0}")]
    Lacks(Scope),
    /// A web page calls a node that needs no key.
    #[error("without API keys this node serves only programs on its own machine, and no web pages")]
    Foreign,
    /// The keys cannot be read: the call may be repeated.
    #[error("the API keys cannot be read")]
    Unavailable(#[source] Arc<StoreError>),
}

/// The caller, and the scope that its call needed.
#[derive(Debug, Clone)]
pub struct Caller {
    access: Access,
    scope: Scope,
    /// None: calls need no key.
    key: Option<Arc<KeyChange>>,
}

impl Caller {
    /// Refuses a caller whose key lacks a scope. Without keys, callers have every permission.
    pub(crate) fn require(&self, scope: Scope) -> Result<(), Refusal> {
        match &self.key {
            Some(key) if !key.scopes.iter().any(|held| held.includes(scope)) => Err(Refusal::Lacks(scope)),
            _ => Ok(()),
        }
    }

    /// The id of its key; none: calls need no key.
    pub(crate) fn key_id(&self) -> Option<&str> {
        self.key.as_ref().map(|key| &*key.id)
    }

    /// Checks that the caller still has access, before answers that come much later: a stream, or the end of a wait.
    /// Costs no statement while the node's copy of the keys is recent.
    pub(crate) async fn check_access(&self) -> Result<(), Refusal> {
        let keys = self.access.keys.required(false).await;
        match (&self.key, keys.map_err(Refusal::Unavailable)?) {
            (None, None) => Ok(()),
            // The first key was created meanwhile: calls need one from now on.
            (None, Some(_)) => Err(Refusal::Missing),
            (Some(key), keys) => match keys.as_ref().and_then(|keys| keys.get(&key.id)) {
                Some(known) if !known.revoked => Ok(()),
                _ => Err(Refusal::Unknown),
            },
        }
    }

    /// The submitter of this caller's requests: that of its key.
    #[must_use]
    pub fn submitter(&self) -> Option<&str> {
        self.key.as_deref().map(|key| key.submitter.as_str())
    }

    /// The caller's name in histories; `None`: it has no key.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        self.key.as_deref().map(|key| format!("key {}", key.id))
    }

    /// The submitter whose requests this caller may read; `None`: all requests.
    pub(crate) fn reads_only(&self) -> Option<&str> {
        let key = self.key.as_deref()?;
        let reads_all = self.scope == Scope::Respond || key.scopes.contains(&Scope::Admin);
        (!reads_all).then_some(key.submitter.as_str())
    }

    /// Whether this caller may administer.
    pub(crate) fn is_operator(&self) -> bool {
        self.require(Scope::Admin).is_ok()
    }

    /// Whether this is a request of the kind that this caller may poll.
    pub(crate) fn may_poll(&self, kind: &str, outlook: &Outlook) -> bool {
        outlook.kind == kind && (outlook.is_shared || self.may_read(outlook.submitter.as_deref()))
    }

    /// Whether this caller may read the requests of this submitter.
    pub(crate) fn may_read(&self, submitter: Option<&str>) -> bool {
        self.reads_only().is_none_or(|own| submitter == Some(own))
    }
}
