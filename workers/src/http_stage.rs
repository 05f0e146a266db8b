//! Stages that are HTTP calls to an operator's own service.
//!
//! `docs/http-stage.md` describes the protocol for authors of services. In short: the payload is `POST`ed to
//! the check URL and then to the send URL of its kind, with the headers `Idempotency-Key: <send id>`, `Tidegate-Job`,
//! `Tidegate-Kind` and `Tidegate-Attempt`; before a request is sent again, and after its end if it may have been
//! executed, a `GET` of the receipt URL asks for its receipt. A service that promises its response for later is asked for it
//! by `GET`s of the response URL.
//!
//! | answer | check | send | receipt |
//! |---|---|---|---|
//! | 2xx | ready | the receipt, with the response in its body | the same |
//! | 404 | never | rejected | there is none |
//! | 410 | never | rejected | it was not executed, and will not be |
//! | 5xx, timeout, no connection | another attempt | another attempt | not known: another attempt |
//! | 408, 425, 429 | not yet | another attempt | not known: another attempt |
//! | 401, 403 | another attempt | another attempt, without one used | not known: another attempt |
//! | 409 | not yet | another attempt | not known: another attempt |
//! | 3xx | not yet | another attempt | not known: another attempt |
//! | other 4xx | never | rejected | not known: another attempt |
//!
//! Neither payloads nor the values of headers are ever logged, and no error message for callers holds a URL.

mod answer;
mod asking;
mod error;
mod header;
mod options;
mod outcome;
mod pointer;
mod receipt;
mod service;
mod url_template;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    sync::{Arc, Once},
};

use reqwest::Method;
use tidegate::{
    request::{Flow, Request, RequestError},
    stage::{Asked, Check, Found, JsonText, Readiness, Receipt, Sent, Stages, Transact},
};
use tidegate_node::webhook::retry_after;

use self::{
    answer::Answer,
    asking::Asking,
    receipt::read_receipt,
    service::{Service, is_of_credential},
};
pub use self::{
    asking::{ResponseAt, ResponseUrl},
    error::HttpStageError,
    header::{HeaderLine, header_map},
    options::{ForKind, HttpOptions, UrlFor},
    pointer::{Pointer, Words},
    receipt::AnswerForm,
    url_template::UrlTemplate,
};
use crate::ParseError;

/// Stages for every kind that `options` have a URL for. `flows` has the flows of the kinds in the database.
///
/// A URL without a kind serves the kinds named with `--kind`, or else every kind in the database.
///
/// # Errors
///
/// When the options contradict each other or a flow, or the machine cannot make an HTTP client.
pub fn stages(options: &HttpOptions, flows: &BTreeMap<String, Flow>) -> Result<Stages, HttpStageError> {
    options.validate()?;
    let service = Arc::new(Service::new(options)?);
    if options.kinds.is_empty() {
        options.refuse_ambiguous(flows)?;
    }
    let named = options.kinds.iter().chain(options.own_kinds());
    let all = flows.keys().filter(|_| options.kinds.is_empty());
    let kinds: BTreeSet<&str> = named.chain(all).map(String::as_str).collect();
    let mut stages = Stages::new();
    for kind in kinds {
        let (readiness, transact) = stages_of(&service, options, kind, flows.get(kind).copied())?;
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
    flow: Option<Flow>,
) -> Result<(Option<HttpReadiness>, Option<HttpTransact>), ParseError> {
    let url = |urls| options::for_kind(urls, kind);
    let service = || service.clone();
    let is_direct = flow == Some(Flow::Direct);
    let given = options::for_kind(&options.answers, kind);
    let own = options.answers.iter().find(|answer| answer.kind.as_deref() == Some(kind));
    if flow == Some(Flow::Proof) && own.is_some_and(|own| own.value != AnswerForm::Envelope) {
        let message = format!("--answer {kind}=… has no form but envelope: a proof is answered by a verdict");
        return Err(ParseError(message));
    }
    let asking = options.asking(kind, flow)?;
    if asking.is_some() && own.is_some() {
        let message = format!("--answer {kind}=… and --response-url exclude each other: keep one");
        return Err(ParseError(message));
    }
    let form = match given {
        Some(form) if flow != Some(Flow::Proof) => form,
        None if is_direct => AnswerForm::Body,
        _ => AnswerForm::Envelope,
    };
    let readiness = url(&options.check_urls).map(|url| HttpReadiness { service: service(), url });
    let transact = url(&options.send_urls).map(|send| HttpTransact {
        service: service(),
        send,
        receipt: url(&options.receipt_urls),
        answers: Answers { form, asking },
        is_direct,
        said: Once::new(),
    });
    Ok((readiness, transact))
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
    answers: Answers,
    is_direct: bool,
    /// Whether it was said that its requests await responses which may never come.
    said: Once,
}

/// What the answers of the service are.
struct Answers {
    form: AnswerForm,
    /// How it is asked for responses; then its answers have no form of ours.
    asking: Option<Asking>,
}

impl Answers {
    fn read_receipt(&self, answer: &Answer) -> Result<Receipt, RequestError> {
        match &self.asking {
            Some(asking) => asking.read_receipt(answer),
            None => read_receipt(answer, self.form),
        }
    }
}

impl HttpTransact {
    /// Says once that a direct request awaits a response that may never come.
    fn note(&self, request: &Request, receipt: &Receipt) {
        if !self.is_direct || receipt.response.is_some() {
            return;
        }
        let kind = &request.kind;
        if let Some(asking) = &self.answers.asking {
            if !asking.can_ask(receipt) {
                let why = "the answer to a send has no reference, so the service cannot be asked for the response: see \
                           --reference-at";
                self.said.call_once(|| tracing::warn!(kind, request = %request.id, "{why}"));
            }
            return;
        }
        self.said.call_once(|| {
            let (why, remedy) = match self.answers.form {
                AnswerForm::Envelope => {
                    ("has no member `response`", format!("if its body is the response, give --answer {kind}=body"))
                }
                AnswerForm::Body | AnswerForm::Final => (
                    "is a 202, which promises a response for later",
                    format!("if a 202 is all that comes, give --answer {kind}=final"),
                ),
            };
            tracing::warn!(
                kind,
                request = %request.id,
                "the answer to a send {why}: requests of this kind now await a POST to /v1/responses, and time out \
                 without one; {remedy}"
            );
        });
    }
}

impl Transact for HttpTransact {
    type Payload = JsonText;

    async fn send(&self, request: &Request) -> Sent {
        let sent = outcome::sent(self.service.call(Method::POST, &self.send, request).await, &self.answers);
        if let Sent::Receipt(receipt) = &sent {
            self.note(request, receipt);
        }
        sent
    }

    /// Without a receipt URL nothing is found and the request is sent again: the service then has to recognise the
    /// `Idempotency-Key`.
    async fn find_receipt(&self, request: &Request) -> Result<Found, RequestError> {
        let Some(url) = &self.receipt else {
            return Ok(Found::Nothing);
        };
        outcome::found(self.service.call(Method::GET, url, request).await, &self.answers)
    }

    fn asks(&self) -> bool {
        self.answers.asking.is_some()
    }

    async fn ask(&self, request: &Request, reference: Option<&str>) -> Asked {
        let later = |after| Asked::Later { after };
        let Some(asking) = &self.answers.asking else {
            return later(None);
        };
        let say = |why: &dyn Display| {
            let kind = &request.kind;
            self.said.call_once(
                || tracing::warn!(kind, request = %request.id, "cannot ask for the response of a request: {why}"),
            );
        };
        let url = match asking.url(&self.send, request, reference) {
            Ok(url) => url,
            Err(error) => {
                say(&error);
                return later(None);
            }
        };
        match self.service.call_at(Method::GET, url, request).await {
            Ok(answer) if answer.status.is_success() => asking.asked(&answer),
            Ok(answer) => {
                if answer.status.is_client_error() && !is_of_credential(answer.status) {
                    say(&format_args!("the service answered {}", answer.status));
                }
                later(retry_after(&answer.headers))
            }
            Err(_) => later(None),
        }
    }
}

/// The stages of `kind` that call the service at `url`, for tests.
#[cfg(test)]
pub(crate) fn stages_at(url: &str, kind: &str, flags: &str) -> (HttpReadiness, HttpTransact) {
    let urls = [("check", "{kind}"), ("send", "{kind}"), ("receipt", "{kind}/{id}")];
    let urls = urls.map(|(call, rest)| format!("--{call}-url {url}/{call}/{rest} "));
    let options = crate::from_flags(&(urls.concat() + flags));
    let service = Arc::new(Service::new(&options).unwrap());
    let flow = crate::kinds::EXAMPLE.iter().find(|(name, _)| *name == kind).map(|(_, flow)| *flow);
    let (readiness, transact) = stages_of(&service, &options, kind, flow).unwrap();
    (readiness.unwrap(), transact.unwrap())
}

#[cfg(test)]
mod tests;
