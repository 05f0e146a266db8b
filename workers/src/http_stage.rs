//! Stages that are HTTP calls to an operator's own service.
//!
//! `docs/http-stage.md` describes the protocol for authors of services. In short: the payload is `POST`ed to
//! the check URL and then to the send URL of its kind, with the headers `Idempotency-Key: <send id>`, `Tidegate-Job`,
//! `Tidegate-Kind` and `Tidegate-Attempt`; before a request is sent again, and after its end if it may have been
//! executed, a `GET` of the receipt URL asks for its receipt.
//!
//! | answer | check | send | receipt |
//! |---|---|---|---|
//! | 2xx | ready | the receipt | the receipt |
//! | 404 | never | rejected | there is none |
//! | 410 | never | rejected | it was not executed, and will not be |
//! | 5xx, timeout, no connection | another attempt | another attempt | not known: another attempt |
//! | 408, 425, 429 | not yet | another attempt | not known: another attempt |
//! | 409 | not yet | another attempt | not known: another attempt |
//! | 3xx | not yet | another attempt | not known: another attempt |
//! | other 4xx | never | rejected | not known: another attempt |
//!
//! Neither payloads nor the values of headers are ever logged, and no error message for callers holds a URL.

mod header;
mod options;
mod outcome;
mod receipt;
mod service;
mod url_template;

use std::{collections::BTreeSet, sync::Arc};

use reqwest::Method;
use tidegate::{
    request::{Request, RequestError},
    stage::{Check, Found, JsonText, Readiness, Sent, Stages, Transact},
};

use self::service::Service;
pub use self::{
    header::{HeaderLine, header_map},
    options::{HttpOptions, UrlFor},
    url_template::UrlTemplate,
};
use crate::{ParseError, kinds::EXAMPLE};

/// Why HTTP stages cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum HttpStageError {
    /// URLs that contradict each other, or a header that cannot be sent.
    #[error(transparent)]
    Options(#[from] ParseError),
    /// The machine cannot make an HTTP client.
    #[error("cannot make an HTTP client: {0}")]
    Client(#[source] reqwest::Error),
}

/// Stages for every kind that `options` have a URL for.
///
/// A URL without a kind serves the example's kinds and those named with `--kind`.
///
/// # Errors
///
/// When the options contradict each other, or the machine cannot make an HTTP client.
pub fn stages(options: &HttpOptions) -> Result<Stages, HttpStageError> {
    options.validate()?;
    let service = Arc::new(Service::new(options)?);
    let own = options.all_urls().filter_map(|url| url.kind.as_ref());
    let mut kinds: BTreeSet<&str> = options.kinds.iter().chain(own).map(String::as_str).collect();
    kinds.extend(EXAMPLE.map(|(kind, _)| kind));
    let mut stages = Stages::new();
    for kind in kinds {
        let (readiness, transact) = stages_of(&service, options, kind);
        if let Some(readiness) = readiness {
            stages = stages.readiness(kind, readiness);
        }
        if let Some(transact) = transact {
            stages = stages.transact(kind, transact);
        }
    }
    Ok(stages)
}

/// The stages of one kind for which `options` have a URL.
fn stages_of(
    service: &Arc<Service>,
    options: &HttpOptions,
    kind: &str,
) -> (Option<HttpReadiness>, Option<HttpTransact>) {
    let url = |urls| options::url_for(urls, kind);
    let service = || service.clone();
    let readiness = url(&options.check_urls).map(|url| HttpReadiness {
        service: service(),
        url,
    });
    let transact = url(&options.send_urls).map(|send| HttpTransact {
        service: service(),
        send,
        receipt: url(&options.receipt_urls),
    });
    (readiness, transact)
}

/// The readiness stage of one kind.
pub(crate) struct HttpReadiness {
    service: Arc<Service>,
    url: UrlTemplate,
}

impl Readiness for HttpReadiness {
    type Payload = JsonText;

    async fn check(&self, request: &Request) -> Check {
        outcome::check(self.service.call(Method::POST, &self.url, request).await)
    }
}

/// The tx stage of one kind.
pub(crate) struct HttpTransact {
    service: Arc<Service>,
    send: UrlTemplate,
    receipt: Option<UrlTemplate>,
}

impl Transact for HttpTransact {
    type Payload = JsonText;

    async fn send(&self, request: &Request) -> Sent {
        outcome::sent(self.service.call(Method::POST, &self.send, request).await)
    }

    /// Without a receipt URL nothing is found and the request is sent again: the service then has to recognise the
    /// `Idempotency-Key`.
    async fn find_receipt(&self, request: &Request) -> Result<Found, RequestError> {
        let Some(url) = &self.receipt else {
            return Ok(Found::Nothing);
        };
        outcome::found(self.service.call(Method::GET, url, request).await)
    }
}

/// The stages of `kind` that call the service at `url`, for tests.
#[cfg(test)]
pub(crate) fn stages_at(url: &str, kind: &str, flags: &str) -> (HttpReadiness, HttpTransact) {
    let urls = [("check", "{kind}"), ("send", "{kind}"), ("receipt", "{kind}/{id}")];
    let urls = urls.map(|(call, rest)| format!("--{call}-url {url}/{call}/{rest} "));
    let options = crate::from_flags(&(urls.concat() + flags));
    let service = Arc::new(Service::new(&options).unwrap());
    let (readiness, transact) = stages_of(&service, &options, kind);
    (readiness.unwrap(), transact.unwrap())
}

#[cfg(test)]
mod tests;
