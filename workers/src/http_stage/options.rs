//! The URLs of the service and the times to wait for it.

use std::{
    collections::{BTreeMap, BTreeSet},
    str::FromStr,
    time::Duration,
};

use humantime::parse_duration;
use reqwest::Proxy;
use tidegate::request::{Flow, Stage};

use super::{AnswerForm, HeaderLine, Pointer, ResponseAt, ResponseUrl, UrlTemplate, Words, asking::Asking};
use crate::{ParseError, kinds::kind_name};

/// An option of one kind, or of all that have none of their own: written `[KIND=]VALUE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForKind<T> {
    /// The kind; none means every kind without a value of its own.
    pub kind: Option<String>,
    /// The value.
    pub value: T,
}

/// A URL, written `[KIND=]URL`.
pub type UrlFor = ForKind<UrlTemplate>;

impl<T: FromStr<Err = ParseError>> FromStr for ForKind<T> {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        // No value has a name before an equals sign: a URL has a colon there.
        let (kind, value) = match text.split_once('=') {
            Some((kind, value)) if kind_name(kind).is_ok() => (Some(kind.to_owned()), value),
            _ => (None, text),
        };
        Ok(Self { kind, value: value.parse()? })
    }
}

/// The URLs, headers and limits of the calls.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "The service")]
pub struct HttpOptions {
    /// Where to ask whether a request can run; {kind} and {id} are replaced (repeatable, once for each kind)
    #[arg(long = "check-url", value_name = "[KIND=]URL")]
    pub check_urls: Vec<UrlFor>,

    /// Where to send a request
    #[arg(long = "send-url", value_name = "[KIND=]URL")]
    pub send_urls: Vec<UrlFor>,

    /// Where to find the receipt of an earlier send; without it the service must recognise the Idempotency-Key
    #[arg(long = "receipt-url", value_name = "[KIND=]URL")]
    pub receipt_urls: Vec<UrlFor>,

    /// What a 2xx of the send and receipt URLs is: its body is the response (body; a 202 promises one for later), also
    /// that of a 202 (final), or it has members reference and response (envelope) [default: body for direct kinds,
    /// envelope for others]
    #[arg(long = "answer", value_name = "[KIND=]FORM")]
    pub answers: Vec<ForKind<AnswerForm>>,

    /// Where to ask for the response of a direct request that the service has taken; {reference}, {kind} and {id} are
    /// replaced. The word location: at the Location of the answer to the send
    #[arg(long = "response-url", value_name = "[KIND=]URL")]
    pub response_urls: Vec<ForKind<ResponseUrl>>,

    /// Where in the answer to a send the reference is, as a JSON pointer such as /id [default: the headers
    /// Tidegate-Reference and Location]
    #[arg(long = "reference-at", value_name = "[KIND=]POINTER")]
    pub references_at: Vec<ForKind<Pointer>>,

    /// When an answer of the response URL has the response: once a JSON pointer has a value, which is the response
    /// (/result), or one of some words; then the whole body is it (/status=done) [default: any 2xx but a 202]
    #[arg(long = "response-at", value_name = "[KIND=]POINTER[=WORD,…]")]
    pub responses_at: Vec<ForKind<ResponseAt>>,

    /// The words at a JSON pointer in an answer of the response URL with which the service says that it has not done
    /// what was asked for, and will not
    #[arg(long = "failed-at", value_name = "[KIND=]POINTER=WORD,…")]
    pub failures_at: Vec<ForKind<Words>>,

    /// A kind that a URL without a kind serves (repeatable) [default: every kind that the database has at the start]
    #[arg(long = "kind", value_name = "NAME", value_parser = kind_name)]
    pub kinds: Vec<String>,

    /// A header to send along (repeatable; in the environment: one a line)
    #[arg(
        long = "header",
        value_name = "NAME: VALUE",
        env = "TIDEGATE_HTTP_HEADERS",
        hide_env_values = true,
        value_delimiter = '\n'
    )]
    pub headers: Vec<HeaderLine>,

    /// A proxy for all calls, such as `http://proxy.example:3128` [default: none, whatever the environment names]
    #[arg(long, value_name = "URL", env = "TIDEGATE_HTTP_PROXY", hide_env_values = true, value_parser = proxy)]
    pub proxy: Option<Proxy>,

    /// How long a connection may take to be made
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse_duration)]
    pub connect_timeout: Duration,

    /// How long the answer may take to begin, once connected [default: as long as the policy's timeout allows]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub first_byte_timeout: Option<Duration>,

    /// How long the answer may take to end, once begun [default: as long as the policy's timeout allows]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub body_timeout: Option<Duration>,

    /// The longest answer that is read, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 8 << 20)]
    pub max_response_bytes: usize,
}

fn proxy(url: &str) -> Result<Proxy, String> {
    Proxy::all(url).map_err(|error| error.to_string())
}

impl Default for HttpOptions {
    /// The defaults of the command line, without the headers of the environment.
    fn default() -> Self {
        Self { headers: Vec::new(), ..crate::from_flags("") }
    }
}

impl HttpOptions {
    pub(super) fn all_urls(&self) -> impl Iterator<Item = &UrlFor> {
        [&self.check_urls, &self.send_urls, &self.receipt_urls].into_iter().flatten()
    }

    /// The kinds that have a URL of their own.
    pub(super) fn own_kinds(&self) -> impl Iterator<Item = &String> {
        let urls = self.all_urls().map(|url| &url.kind);
        urls.chain(self.response_urls.iter().map(|url| &url.kind)).flatten()
    }

    /// The stages that these options name, each by its kind. A kind given with `--kind` may have no checks.
    pub fn named(&self) -> impl Iterator<Item = (String, Stage)> {
        let checks = self.check_urls.iter().map(|url| (&url.kind, Stage::Readiness));
        let sends = self.send_urls.iter().chain(&self.receipt_urls).map(|url| &url.kind);
        let sends = sends.chain(self.response_urls.iter().map(|url| &url.kind));
        let own = checks.chain(sends.map(|kind| (kind, Stage::Tx)));
        let own = own.filter_map(|(kind, stage)| Some((kind.clone()?, stage)));
        own.chain(self.kinds.iter().map(|kind| {
            let sends = for_kind(&self.send_urls, kind).is_some();
            (kind.clone(), if sends { Stage::Tx } else { Stage::Readiness })
        }))
    }

    /// Refuses a URL that is the same for several kinds of which none is named: their requests would be sent to a service
    /// that may be meant for one of them.
    pub(super) fn refuse_ambiguous(&self, flows: &BTreeMap<String, Flow>) -> Result<(), ParseError> {
        let checks = (&self.check_urls, "--check-url", Stage::Readiness);
        for (urls, flag, stage) in [checks, (&self.send_urls, "--send-url", Stage::Tx)] {
            let Some(general) = urls.iter().find(|url| url.kind.is_none()) else {
                continue;
            };
            let own = |kind: &str| urls.iter().any(|url| url.kind.as_deref() == Some(kind));
            let has_stage = |flow: Flow| stage == Stage::Tx || flow == Flow::Decrypt;
            let served = flows.iter().filter(|(kind, flow)| has_stage(**flow) && !own(kind));
            let served: Vec<_> = served.map(|(kind, _)| kind.as_str()).collect();
            if served.len() > 1 && !general.value.names_the_kind() {
                let kinds = served.join(", ");
                return Err(ParseError(format!(
                    "{flag} is one URL for the kinds {kinds}: name those that it is for with --kind, give each its own as \
                     KIND=URL, or put {{kind}} into it"
                )));
            }
        }
        Ok(())
    }

    /// Whether they fit each other.
    ///
    /// # Errors
    ///
    /// When they contradict each other.
    pub fn validate(&self) -> Result<(), ParseError> {
        let refuse = |message: &str| Err(ParseError(message.to_owned()));
        if self.all_urls().next().is_none() {
            return refuse("there is nothing to call: give --check-url, --send-url or both");
        }
        once_a_kind("--check-url", &self.check_urls)?;
        once_a_kind("--send-url", &self.send_urls)?;
        once_a_kind("--receipt-url", &self.receipt_urls)?;
        once_a_kind("--answer", &self.answers)?;
        let urls = |kind: &&String| [&self.check_urls, &self.send_urls].map(|urls| for_kind(urls, kind));
        if let Some(kind) = self.kinds.iter().find(|kind| urls(kind) == [None, None]) {
            return refuse(&format!("--kind {kind} has no URL: give --check-url or --send-url without a kind"));
        }
        for receipt in &self.receipt_urls {
            if !receipt.value.names_the_request() {
                return refuse("--receipt-url has no place for the request's id: put {id} into it");
            }
            if !self.sends(receipt.kind.as_deref()) {
                return refuse("--receipt-url is asked before a send: give --send-url too");
            }
        }
        if self.answers.iter().any(|answer| !self.sends(answer.kind.as_deref())) {
            return refuse("--answer is about the answers to sends: give --send-url too");
        }
        self.validate_asking()
    }

    fn validate_asking(&self) -> Result<(), ParseError> {
        let refuse = |message: &str| Err(ParseError(message.to_owned()));
        once_a_kind("--response-url", &self.response_urls)?;
        once_a_kind("--reference-at", &self.references_at)?;
        once_a_kind("--response-at", &self.responses_at)?;
        once_a_kind("--failed-at", &self.failures_at)?;
        for url in &self.response_urls {
            if !url.value.names_the_request() {
                return refuse("--response-url has no place for the request: put {reference} or {id} into it");
            }
            if !self.sends(url.kind.as_deref()) {
                return refuse("--response-url is asked after a send: give --send-url too");
            }
        }
        let kinds = (self.references_at.iter().map(|at| &at.kind))
            .chain(self.responses_at.iter().map(|at| &at.kind))
            .chain(self.failures_at.iter().map(|at| &at.kind));
        for kind in kinds {
            let asked = match kind {
                Some(kind) => for_kind(&self.response_urls, kind).is_some(),
                None => !self.response_urls.is_empty(),
            };
            if !asked {
                return refuse("--reference-at, --response-at and --failed-at go with --response-url: give that too");
            }
        }
        Ok(())
    }

    /// How the service is asked for responses of this kind, if it is.
    pub(super) fn asking(&self, kind: &str, flow: Option<Flow>) -> Result<Option<Asking>, ParseError> {
        let Some(url) = for_kind(&self.response_urls, kind) else {
            return Ok(None);
        };
        match flow {
            Some(Flow::Direct) => {}
            Some(_) if self.response_urls.iter().any(|url| url.kind.as_deref() == Some(kind)) => {
                let message = format!("--response-url {kind}=… is for direct kinds, and {kind} is none");
                return Err(ParseError(message));
            }
            _ => return Ok(None),
        }
        Ok(Some(Asking {
            url,
            reference: for_kind(&self.references_at, kind),
            response: for_kind(&self.responses_at, kind),
            failed: for_kind(&self.failures_at, kind),
        }))
    }

    /// Whether requests of this kind, or of any, are sent.
    fn sends(&self, kind: Option<&str>) -> bool {
        match kind {
            Some(kind) => for_kind(&self.send_urls, kind).is_some(),
            None => !self.send_urls.is_empty(),
        }
    }
}

fn once_a_kind<T>(flag: &str, values: &[ForKind<T>]) -> Result<(), ParseError> {
    let mut kinds = BTreeSet::new();
    let Some(second) = values.iter().find(|value| !kinds.insert(&value.kind)) else {
        return Ok(());
    };
    let kind = second.kind.as_deref().unwrap_or("all other kinds");
    Err(ParseError(format!("{flag} is given twice for {kind}: keep one")))
}

/// The value of `kind`: its own, or the one for all.
pub(super) fn for_kind<T: Clone>(values: &[ForKind<T>], kind: &str) -> Option<T> {
    let of = |wanted: Option<&str>| values.iter().find(move |value| value.kind.as_deref() == wanted);
    of(Some(kind)).or_else(|| of(None)).map(|found| found.value.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(check: &[&str], send: &[&str], receipt: &[&str]) -> HttpOptions {
        let urls = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        HttpOptions {
            check_urls: urls(check),
            send_urls: urls(send),
            receipt_urls: urls(receipt),
            ..HttpOptions::default()
        }
    }

    #[test]
    fn a_kinds_own_url_wins_over_the_one_for_all() {
        let options = options(&[], &["http://a/s?x=1", "direct=http://b/s"], &[]);
        let url = |kind| for_kind(&options.send_urls, kind).unwrap().fill(kind, "7").unwrap();
        assert_eq!(url("direct").as_str(), "http://b/s");
        assert_eq!(url("input_proof").as_str(), "http://a/s?x=1");
        assert!(for_kind(&options.check_urls, "direct").is_none());
    }

    #[test]
    fn contradictions_are_refused() {
        let error = |options: HttpOptions| options.validate().unwrap_err().to_string();
        assert!(error(options(&[], &[], &[])).contains("--send-url"));
        assert!(error(options(&[], &["http://a", "http://b"], &[])).contains("all other kinds"));
        assert!(error(options(&[], &["x=http://a", "x=http://b"], &[])).contains("twice for x"));
        assert!(error(options(&[], &["http://a"], &["http://a/r"])).contains("{id}"));
        assert!(error(options(&["http://a"], &[], &["http://a/{id}"])).contains("give --send-url"));
        assert!(options(&[], &["http://a"], &["x=http://a/{id}"]).validate().is_ok());
        assert!(error(crate::from_flags("--send-url x=http://a --kind y")).contains("--kind y has no URL"));
        assert!(error(crate::from_flags("--send-url x=http://a --answer y=body")).contains("give --send-url"));
        let twice = "--send-url http://a --answer body --answer final";
        assert!(error(crate::from_flags(twice)).contains("all other kinds"));
    }

    #[test]
    fn options_name_stages() {
        let named = |flags: &str| crate::from_flags::<HttpOptions>(flags).named().collect::<Vec<_>>();
        let (all, kind) = ("--check-url http://a --send-url http://a", "x".to_owned());
        assert_eq!(named(all), []);
        assert_eq!(named(&format!("{all} --kind x")), [(kind.clone(), Stage::Tx)]);
        assert_eq!(named("--check-url http://a --kind x"), [(kind.clone(), Stage::Readiness)]);
        assert_eq!(named("--check-url x=http://a"), [(kind.clone(), Stage::Readiness)]);
        assert_eq!(named(&format!("{all} --receipt-url x=http://a/{{id}}")), [(kind, Stage::Tx)]);
    }
}
