//! What the tests of this crate share.

use std::{fmt::Debug, str::FromStr};

use serde_json::json;
use tidegate::request::Request;

use crate::ParseError;

/// A request of `kind`.
pub(crate) fn request(kind: &str) -> Request {
    let mut request = Request::example(kind, json!({ "secret": 7 }).into());
    request.attempt = 2;
    request
}

/// Each text is refused with an error that contains its part.
pub(crate) fn assert_refused<T: FromStr<Err = ParseError> + Debug>(cases: &[(&str, &str)]) {
    for (text, part) in cases {
        let error = text.parse::<T>().unwrap_err().to_string();
        assert!(error.contains(part), "{text}: {error}");
    }
}
