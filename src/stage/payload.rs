//! The payload of a request, as the type that a stage declares.

use std::{any::Any, ops::Deref};

use serde::de::DeserializeOwned;

use crate::request::{Request, RequestError};

/// A request with its payload as the stage's type.
pub(super) enum Typed<'a, P> {
    /// The stage takes JSON text: nothing is parsed or copied.
    Text(&'a Request<P>),
    Parsed(Request<P>),
}

impl<'a, P: DeserializeOwned + 'static> Typed<'a, P> {
    /// Parses the payload unless the stage takes its text.
    pub(super) fn of(request: &'a Request) -> Result<Self, RequestError> {
        match (request as &dyn Any).downcast_ref() {
            Some(request) => Ok(Self::Text(request)),
            None => parsed(request).map(Self::Parsed),
        }
    }
}

impl<P> Deref for Typed<'_, P> {
    type Target = Request<P>;

    fn deref(&self) -> &Request<P> {
        match self {
            Self::Text(request) => request,
            Self::Parsed(request) => request,
        }
    }
}

/// A request with its payload parsed.
///
/// The error names the place, and nothing of the payload: it may be confidential, and the error is stored and logged.
pub(super) fn parsed<P: DeserializeOwned>(request: &Request) -> Result<Request<P>, RequestError> {
    match serde_json::from_str(request.payload.get()) {
        Ok(payload) => Ok(request.with_payload(payload)),
        Err(error) => Err(RequestError::new(
            "invalid_payload",
            format!(
                "the payload does not fit the stage of kind \"{}\": line {}, column {}",
                request.kind,
                error.line(),
                error.column()
            ),
            false,
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::JsonText;

    #[test]
    fn text_is_neither_parsed_nor_copied() {
        let payload = r#"{"n": 1}"#.parse().unwrap();
        let request = Request::example("direct", payload);

        let typed = Typed::<JsonText>::of(&request).unwrap();

        assert!(std::ptr::eq(&raw const *typed, &raw const request));
    }
}
