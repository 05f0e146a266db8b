//! The header `Retry-After`.

use std::convert::Infallible;

use axum::{
    http::header::RETRY_AFTER,
    response::{IntoResponseParts, ResponseParts},
};
use tidegate::retry_after::RetryAfter;

/// Sets the header, and an extension with the number for the layers that add headers.
pub(super) struct WithRetryAfter(pub(super) RetryAfter);

impl IntoResponseParts for WithRetryAfter {
    type Error = Infallible;

    fn into_response_parts(self, mut parts: ResponseParts) -> Result<ResponseParts, Infallible> {
        parts.headers_mut().insert(RETRY_AFTER, self.0.as_secs().into());
        parts.extensions_mut().insert(self.0);
        Ok(parts)
    }
}
