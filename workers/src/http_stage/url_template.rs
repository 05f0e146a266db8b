//! URLs with a place for the kind and the request's id.

use std::{fmt, str::FromStr};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Url;

use crate::ParseError;

/// All but RFC 3986's unreserved characters, so that a value stays within its path segment.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A URL with any number of `{kind}` and `{id}` in it; their values are percent-encoded.
#[derive(Clone, PartialEq, Eq)]
pub struct UrlTemplate(String);

impl UrlTemplate {
    /// The URL for one request.
    ///
    /// # Errors
    ///
    /// When the values make a text that is no URL, which no kind and no request id do.
    pub fn fill(&self, kind: &str, id: &str) -> Result<Url, ParseError> {
        let url = Url::parse(&self.filled(kind, id));
        let url = url.map_err(|error| ParseError(format!("this is not a URL: {error}")))?;
        match url.scheme() {
            "http" | "https" => Ok(url),
            _ => Err(ParseError("the URL must start with http:// or https://".to_owned())),
        }
    }

    fn filled(&self, kind: &str, id: &str) -> String {
        self.0.replace("{kind}", &escaped(kind)).replace("{id}", &escaped(id))
    }

    /// Whether kinds get different URLs.
    pub(super) fn names_the_kind(&self) -> bool {
        self.0.contains("{kind}")
    }

    /// Whether requests of one kind get different URLs.
    pub(super) fn names_the_request(&self) -> bool {
        self.0.contains("{id}")
    }

    /// A URL that may have `{reference}` in it, too, which [`refer`](Self::refer) replaces.
    pub(super) fn with_reference(text: &str) -> Result<Self, ParseError> {
        checked(&text.replace(REFERENCE, "reference"), "{kind}, {id} and {reference}")?;
        Ok(Self(text.to_owned()))
    }

    pub(super) fn names_the_reference(&self) -> bool {
        self.0.contains(REFERENCE)
    }

    /// The URL for requests with this reference.
    pub(super) fn refer(&self, reference: &str) -> Self {
        Self(self.0.replace(REFERENCE, &escaped(reference)))
    }
}

const REFERENCE: &str = "{reference}";

fn escaped(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

impl FromStr for UrlTemplate {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        checked(text, "{kind} and {id}")
    }
}

/// A template without placeholders besides `{kind}` and `{id}`; errors name the `known` ones.
fn checked(text: &str, known: &str) -> Result<UrlTemplate, ParseError> {
    let template = UrlTemplate(text.to_owned());
    let example = template.filled("kind", "id");
    if let Some(at) = example.find(['{', '}']) {
        let unknown = example[at..].strip_prefix('{').and_then(|brace| brace.split_once('}'));
        return Err(ParseError(match unknown {
            Some((name, _)) => format!("there is no placeholder {{{name}}}: there are {known}"),
            None => format!("a brace has no partner: placeholders are {known}"),
        }));
    }
    template.fill("kind", "id")?;
    Ok(template)
}

/// Shows nothing: a URL may hold a password or a token.
impl fmt::Debug for UrlTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UrlTemplate(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::assert_refused;

    fn filled(template: &str, kind: &str, id: &str) -> String {
        let template: UrlTemplate = template.parse().unwrap();
        template.fill(kind, id).unwrap().to_string()
    }

    #[test]
    fn placeholders_are_replaced_wherever_they_stand() {
        assert_eq!(filled("http://a/send", "direct", "7"), "http://a/send");
        assert_eq!(filled("http://a/{kind}/r/{id}?k={kind}", "direct", "7"), "http://a/direct/r/7?k=direct");
        assert_eq!(filled("https://{kind}.a/{id}", "direct", "7"), "https://direct.a/7");
    }

    #[test]
    fn a_value_stays_in_its_path_segment() {
        assert_eq!(filled("http://a/r/{id}/x", "k", "../b c?d#e%/é"), "http://a/r/..%2Fb%20c%3Fd%23e%25%2F%C3%A9/x");
    }

    #[test]
    fn an_error_names_what_is_wrong() {
        assert_refused::<UrlTemplate>(&[
            ("http://a/{name}", "there is no placeholder {name}"),
            ("http://a/{id", "no partner"),
            ("http://a/id}", "no partner"),
            ("a/{id}", "not a URL"),
            ("ftp://a/{id}", "http:// or https://"),
        ]);
    }
}
