//! Asks an asynchronous API for the response of a request that it took.

use std::str::FromStr;

use reqwest::{StatusCode, Url};
use tidegate::{
    request::{JsonText, Request, RequestError},
    stage::{Asked, Receipt},
};
use tidegate_node::webhook::retry_after;

use super::{
    UrlTemplate,
    answer::Answer,
    pointer::{Pointer, Words},
    receipt::{find_reference, json_of, read_failure, read_response, text_or_digits},
};
use crate::ParseError;

/// Where to ask for a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResponseUrl {
    /// At the `Location` of the answer to the send.
    Location,
    /// At a URL, which may have `{reference}` in it.
    Template(UrlTemplate),
}

impl FromStr for ResponseUrl {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text {
            "location" => Ok(Self::Location),
            _ => UrlTemplate::with_reference(text).map(Self::Template),
        }
    }
}

impl ResponseUrl {
    /// Whether two requests of a kind have different ones.
    pub(super) fn names_the_request(&self) -> bool {
        match self {
            Self::Location => true,
            Self::Template(url) => url.names_the_request() || url.names_the_reference(),
        }
    }

    fn needs_reference(&self) -> bool {
        match self {
            Self::Location => true,
            Self::Template(url) => url.names_the_reference(),
        }
    }
}

/// When there is a response, and where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResponseAt {
    /// The value at a pointer, once there is one.
    Value(Pointer),
    /// The whole body, once the value at a pointer is one of these words.
    Body(Words),
}

impl FromStr for ResponseAt {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        if text.contains('=') { text.parse().map(Self::Body) } else { text.parse().map(Self::Value) }
    }
}

/// How the response of one kind is asked for.
#[derive(Debug, Clone)]
pub(super) struct Asking {
    pub(super) url: ResponseUrl,
    pub(super) reference: Option<Pointer>,
    pub(super) response: Option<ResponseAt>,
    pub(super) failed: Option<Words>,
}

impl Asking {
    /// The receipt in the answer to a send. It has a response only if a pointer says so.
    pub(super) fn read_receipt(&self, answer: &Answer) -> Result<Receipt, RequestError> {
        let reference = match &self.reference {
            None => None,
            // Without its name for the request, the service could not be asked for the response.
            Some(pointer) => json_of(answer)?.and_then(|json| pointer.value(&json)),
        };
        let reference = reference.and_then(|json| text_or_digits(&json));
        let response = match &self.response {
            None => None,
            Some(_) => self.response(answer)?,
        };
        Ok(Receipt { reference: find_reference(answer, reference), response })
    }

    /// Whether a receipt has what asking needs.
    pub(super) fn can_ask(&self, receipt: &Receipt) -> bool {
        receipt.response.is_some() || receipt.reference.is_some() || !self.url.needs_reference()
    }

    /// Where to ask. `send` is where the request was sent.
    pub(super) fn url(
        &self,
        send: &UrlTemplate,
        request: &Request,
        reference: Option<&str>,
    ) -> Result<Url, ParseError> {
        let none = || ParseError("the answer to the send had no reference".to_owned());
        let id = request.send_id.to_string();
        match &self.url {
            ResponseUrl::Template(url) if !url.names_the_reference() => url.fill(&request.kind, &id),
            ResponseUrl::Template(url) => url.refer(reference.ok_or_else(none)?).fill(&request.kind, &id),
            ResponseUrl::Location => {
                let send = send.fill(&request.kind, &id)?;
                let url = send.join(reference.ok_or_else(none)?);
                let url = url.map_err(|error| ParseError(format!("the Location is no URL: {error}")))?;
                // The headers of the calls hold credentials, which are for one service.
                if url.origin() != send.origin() {
                    return Err(ParseError("the Location leads to another origin than the send".to_owned()));
                }
                Ok(url)
            }
        }
    }

    /// What a 2xx says.
    pub(super) fn asked(&self, answer: &Answer) -> Asked {
        if let Some(error) = self.failure(answer) {
            return Asked::Failed(error);
        }
        match self.response(answer) {
            Ok(Some(response)) => Asked::Response(response),
            Ok(None) => Asked::Later { after: retry_after(&answer.headers) },
            Err(error) => {
                tracing::warn!(error.code, "cannot read the answer to an ask: {}", error.message);
                Asked::Later { after: None }
            }
        }
    }

    fn response(&self, answer: &Answer) -> Result<Option<JsonText>, RequestError> {
        match &self.response {
            None if answer.status == StatusCode::ACCEPTED => Ok(None),
            None => read_response(answer).map(Some),
            Some(ResponseAt::Value(pointer)) => Ok(json_of(answer)?.and_then(|json| pointer.value(&json))),
            Some(ResponseAt::Body(words)) => Ok(json_of(answer)?.filter(|json| words.found(json).is_some())),
        }
    }

    fn failure(&self, answer: &Answer) -> Option<RequestError> {
        let json = json_of(answer).ok()??;
        let word = self.failed.as_ref()?.found(&json)?;
        Some(read_failure(answer, "rejected", || format!("the service says: {word}")))
    }
}
