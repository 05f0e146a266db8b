//! The header `Retry-After`.

use std::convert::Infallible;

use axum::{
    http::header::RETRY_AFTER,
    response::{IntoResponseParts, ResponseParts},
};

use crate::retry_after::RetryAfter;

/// Sets the header, and an extension with the number for the layers that add headers.
impl IntoResponseParts for RetryAfter {
    type Error = Infallible;

    fn into_response_parts(self, mut parts: ResponseParts) -> Result<ResponseParts, Infallible> {
        parts.headers_mut().insert(RETRY_AFTER, self.as_secs().into());
        parts.extensions_mut().insert(self);
        Ok(parts)
    }
}
