//! Values of the database's, as Rust has them.

use serde_json::Value;

use crate::{error::StoreError, request::RequestError, retry_after::RetryAfter};

/// Whole seconds; one for null, or for what should not be.
pub(super) fn retry_after(seconds: Option<i32>) -> RetryAfter {
    RetryAfter::seconds(u64::try_from(seconds.unwrap_or_default()).unwrap_or_default())
}

/// A word of the database's; a strange one means a schema from another time.
pub(super) fn decode<T>(word: String) -> Result<T, StoreError>
where
    T: TryFrom<String>,
    T::Error: std::fmt::Display,
{
    T::try_from(word).map_err(|error: T::Error| StoreError::NotMigrated(error.to_string()))
}

/// An error as it stands in the row; hand-written ones may lack a field.
pub(super) fn stored_error(error: &Value) -> RequestError {
    let text = |name: &str| error.get(name).and_then(Value::as_str);
    RequestError {
        code: text("code").unwrap_or("unknown").to_owned(),
        message: text("message").unwrap_or_default().to_owned(),
        retryable: error.get("retryable").and_then(Value::as_bool).unwrap_or(false),
    }
}
