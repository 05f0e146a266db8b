//! Admits callers to the routes of the API by their keys, and answers those that are refused.

use axum::{
    Router,
    extract::{FromRequestParts, Request, State},
    http::{header::WWW_AUTHENTICATE, request::Parts},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use tidegate::internals::api_key::Scope;

use super::{
    body,
    problem::{FORBIDDEN, FOREIGN_ORIGIN, INTERNAL, Problem, UNAUTHENTICATED},
};
use crate::state::access::{Access, Caller, Refusal};

/// How much of a refused call's body is read, so that its sender gets the answer.
const DISCARD_MAX: usize = 1024 * 1024;

/// Restricts routes to callers with this scope.
pub(super) fn guard<S: Clone + Send + Sync + 'static>(access: &Access, scope: Scope, routes: Router<S>) -> Router<S> {
    let guard = (access.clone(), scope);
    routes.route_layer(middleware::from_fn_with_state(guard, admit))
}

/// Admits a call whose key has the scope, and adds the caller to its extensions.
async fn admit(State((access, scope)): State<(Access, Scope)>, mut request: Request, next: Next) -> Response {
    match access.bearer(request.headers(), scope).await {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Err(refusal) => {
            body::discard(request, DISCARD_MAX).await;
            refusal.into_response()
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let class = match &self {
            Self::Missing | Self::Malformed | Self::Unknown => &UNAUTHENTICATED,
            Self::Lacks(_) => &FORBIDDEN,
            Self::Foreign => &FOREIGN_ORIGIN,
            Self::Unavailable(error) => return Problem::from(&**error).into_response(),
        };
        let problem = class.because(self.to_string());
        let error = match self {
            Self::Malformed | Self::Unknown => r#", error="invalid_token""#.to_owned(),
            Self::Lacks(scope) => format!(r#", error="insufficient_scope", scope="{scope}""#),
            _ => String::new(),
        };
        let challenge = format!("Bearer realm=\"tidegate\"{error}");
        ([(WWW_AUTHENTICATE, challenge)], problem).into_response()
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        parts.extensions.get().cloned().ok_or_else(|| {
            tracing::error!(path = parts.uri.path(), "a route is not guarded");
            INTERNAL.because("the server's log has the cause")
        })
    }
}
