//! The header `Retry-After`.

use std::convert::Infallible;

use axum::{
    http::{HeaderValue, header::RETRY_AFTER},
    response::{IntoResponseParts, ResponseParts},
};

use crate::retry_after::RetryAfter;

/// The header; and for the layers that see the answer on its way out, the number.
impl IntoResponseParts for RetryAfter {
    type Error = Infallible;

    fn into_response_parts(self, mut parts: ResponseParts) -> Result<ResponseParts, Infallible> {
        let header = HeaderValue::from(self.as_secs());
        parts.headers_mut().insert(RETRY_AFTER, header);
        parts.extensions_mut().insert(self);
        Ok(parts)
    }
}
