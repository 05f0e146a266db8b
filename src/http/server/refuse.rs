//! What a connection hears when all places are taken: 503 and the end, so that its caller may choose another node.

use std::time::Duration;

use axum::{
    Router,
    extract::Request,
    http::{
        HeaderValue,
        header::{CACHE_CONTROL, CONNECTION},
    },
    response::{IntoResponse, Response},
};

use super::{
    super::{body, problem::OVERLOADED},
    ConnectionOptions,
};

/// Connections that are being refused at once; one more is closed without a word.
pub(super) const PLACES: usize = 64;

/// How long a refused connection may take to ask, and to hear.
const PATIENCE: Duration = Duration::from_secs(1);

/// How much of a refused call's body is heard out, so that its sender hears the refusal.
const HEARD_OUT: usize = 64 * 1024;

/// Refuses every call.
pub(super) fn router() -> Router {
    Router::new().fallback(refuse)
}

/// What a refused connection is held to.
pub(super) fn options(options: &ConnectionOptions) -> ConnectionOptions {
    ConnectionOptions {
        idle_timeout: PATIENCE,
        write_timeout: PATIENCE,
        ..options.clone()
    }
}

async fn refuse(request: Request) -> Response {
    let _ = tokio::time::timeout(PATIENCE, body::hear_out(request, HEARD_OUT)).await;
    let mut response = OVERLOADED
        .because("as many connections as this node takes are open")
        .into_response();
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
