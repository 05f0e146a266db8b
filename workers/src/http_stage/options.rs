//! The URLs of the service and the times to wait for it.

use std::{collections::BTreeSet, str::FromStr, time::Duration};

use humantime::parse_duration;
use reqwest::Proxy;
use tidegate::request::Stage;

use super::{HeaderLine, UrlTemplate};
use crate::{ParseError, kinds::kind_name};

/// A URL for one kind, or for all that have none of their own: written `[KIND=]URL`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlFor {
    /// The kind; none means every kind without a URL of its own.
    pub kind: Option<String>,
    /// The URL.
    pub url: UrlTemplate,
}

impl FromStr for UrlFor {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        // A URL has a colon before its first equals sign, a kind has none.
        let (kind, url) = match text.split_once('=') {
            Some((kind, url)) if kind_name(kind).is_ok() => (Some(kind.to_owned()), url),
            _ => (None, text),
        };
        Ok(Self {
            kind,
            url: url.parse()?,
        })
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

    /// Another kind, besides those of the example, that a URL without a kind serves (repeatable)
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

    /// How long the answer may take to begin, once connected
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    pub first_byte_timeout: Duration,

    /// How long the answer may take to end, once begun
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    pub body_timeout: Duration,

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
        Self {
            headers: Vec::new(),
            ..crate::from_flags("")
        }
    }
}

impl HttpOptions {
    pub(super) fn all_urls(&self) -> impl Iterator<Item = &UrlFor> {
        [&self.check_urls, &self.send_urls, &self.receipt_urls]
            .into_iter()
            .flatten()
    }

    /// The stages that these options name, each by its kind. A kind given with `--kind` may have no checks.
    pub fn named(&self) -> impl Iterator<Item = (String, Stage)> {
        let checks = self.check_urls.iter().map(|url| (&url.kind, Stage::Readiness));
        let sends = self.send_urls.iter().chain(&self.receipt_urls);
        let own = checks.chain(sends.map(|url| (&url.kind, Stage::Tx)));
        let own = own.filter_map(|(kind, stage)| Some((kind.clone()?, stage)));
        own.chain(self.kinds.iter().map(|kind| {
            let sends = url_for(&self.send_urls, kind).is_some();
            (kind.clone(), if sends { Stage::Tx } else { Stage::Readiness })
        }))
    }

    pub(super) fn validate(&self) -> Result<(), ParseError> {
        let refuse = |message: &str| Err(ParseError(message.to_owned()));
        if self.all_urls().next().is_none() {
            return refuse("there is nothing to call: give --check-url, --send-url or both");
        }
        for (flag, urls) in [
            ("--check-url", &self.check_urls),
            ("--send-url", &self.send_urls),
            ("--receipt-url", &self.receipt_urls),
        ] {
            let mut kinds = BTreeSet::new();
            if let Some(second) = urls.iter().find(|url| !kinds.insert(&url.kind)) {
                let kind = second.kind.as_deref().unwrap_or("all other kinds");
                return refuse(&format!("{flag} is given twice for {kind}: keep one"));
            }
        }
        let urls = |kind: &&String| [&self.check_urls, &self.send_urls].map(|urls| url_for(urls, kind));
        if let Some(kind) = self.kinds.iter().find(|kind| urls(kind) == [None, None]) {
            return refuse(&format!(
                "--kind {kind} has no URL: give --check-url or --send-url without a kind"
            ));
        }
        for receipt in &self.receipt_urls {
            if !receipt.url.names_the_request() {
                return refuse("--receipt-url has no place for the request's id: put {id} into it");
            }
            let has_send = match &receipt.kind {
                Some(kind) => url_for(&self.send_urls, kind).is_some(),
                None => !self.send_urls.is_empty(),
            };
            if !has_send {
                return refuse("--receipt-url is asked before a send: give --send-url too");
            }
        }
        Ok(())
    }
}

/// The URL of `kind`: its own, or the one for all.
pub(super) fn url_for(urls: &[UrlFor], kind: &str) -> Option<UrlTemplate> {
    let of = |wanted: Option<&str>| urls.iter().find(move |url| url.kind.as_deref() == wanted);
    of(Some(kind)).or_else(|| of(None)).map(|found| found.url.clone())
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
        let url = |kind| url_for(&options.send_urls, kind).unwrap().fill(kind, "7").unwrap();
        assert_eq!(url("direct").as_str(), "http://b/s");
        assert_eq!(url("input_proof").as_str(), "http://a/s?x=1");
        assert!(url_for(&options.check_urls, "direct").is_none());
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
    }

    #[test]
    fn options_name_stages() {
        let named = |flags: &str| crate::from_flags::<HttpOptions>(flags).named().collect::<Vec<_>>();
        let (all, kind) = ("--check-url http://a --send-url http://a", "x".to_owned());
        assert_eq!(named(all), []);
        assert_eq!(named(&format!("{all} --kind x")), [(kind.clone(), Stage::Tx)]);
        assert_eq!(
            named("--check-url http://a --kind x"),
            [(kind.clone(), Stage::Readiness)]
        );
        assert_eq!(named("--check-url x=http://a"), [(kind.clone(), Stage::Readiness)]);
        assert_eq!(
            named(&format!("{all} --receipt-url x=http://a/{{id}}")),
            [(kind, Stage::Tx)]
        );
    }
}
