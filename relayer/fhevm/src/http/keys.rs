//! The API keys of callers.

use axum::http::{header::AUTHORIZATION, request::Parts};
use tidegate_node::{Refusal, Scope};

use super::Relayer;

/// Why a caller is not admitted.
pub(super) enum Refused {
    /// Its key is missing, unknown, or without the scope.
    Unauthorized,
    /// The keys cannot be read.
    Unavailable,
}

/// The key that a call shows: in `X-API-Key`, or as a bearer's.
#[must_use]
pub fn credential(call: &Parts) -> Option<String> {
    let text = |name: &str| call.headers.get(name)?.to_str().ok();
    let bearer = || {
        let (scheme, key) = text(AUTHORIZATION.as_str())?.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
    };
    text("x-api-key").or_else(bearer).map(str::to_owned)
}

impl Relayer {
    /// The submitter of a call's key; `None` while calls need none.
    pub(super) async fn caller(&self, call: &Parts) -> Result<Option<String>, Refused> {
        match self.0.node.caller(call, Scope::Submit).await {
            Ok(caller) => Ok(caller.submitter().map(str::to_owned)),
            Err(Refusal::Unavailable(_)) => Err(Refused::Unavailable),
            Err(_) => Err(Refused::Unauthorized),
        }
    }
}
