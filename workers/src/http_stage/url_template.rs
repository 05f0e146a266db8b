//! URLs with a place for the kind and the request's id.

use std::{fmt, str::FromStr};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Url;

/// All but RFC 3986's unreserved characters, so that a value stays within its path segment.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Kind,
    Id,
}

/// A URL with any number of `{kind}` and `{id}` in it; their values are percent-encoded.
#[derive(Clone, PartialEq, Eq)]
pub struct UrlTemplate {
    pieces: Vec<Piece>,
}

/// Why a text is not a URL template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlTemplateError {
    /// A brace that opens or closes nothing.
    #[error("a brace has no partner: placeholders are {{kind}} and {{id}}")]
    LonelyBrace,
    /// A placeholder that nothing replaces.
    #[error("there is no placeholder {{{0}}}: there are {{kind}} and {{id}}")]
    UnknownPlaceholder(String),
    /// Not a URL.
    #[error("this is not a URL: {0}")]
    NotAUrl(String),
    /// A URL of another kind.
    #[error("the URL must start with http:// or https://")]
    NotHttp,
}

impl UrlTemplate {
    /// The URL for one request.
    ///
    /// # Errors
    ///
    /// When the values make a text that is no URL, which no kind and no request id do.
    pub fn fill(&self, kind: &str, id: &str) -> Result<Url, UrlTemplateError> {
        let escaped = |text| utf8_percent_encode(text, ESCAPED).to_string();
        let text: String = self
            .pieces
            .iter()
            .map(|piece| match piece {
                Piece::Text(text) => text.clone(),
                Piece::Kind => escaped(kind),
                Piece::Id => escaped(id),
            })
            .collect();
        let url = Url::parse(&text).map_err(|error| UrlTemplateError::NotAUrl(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(UrlTemplateError::NotHttp);
        }
        Ok(url)
    }

    /// Whether requests of one kind get different URLs.
    pub(super) fn names_the_request(&self) -> bool {
        self.pieces.contains(&Piece::Id)
    }
}

impl FromStr for UrlTemplate {
    type Err = UrlTemplateError;

    fn from_str(text: &str) -> Result<Self, UrlTemplateError> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let (before, brace) = rest.split_at(at);
            let (name, after) = brace
                .strip_prefix('{')
                .and_then(|brace| brace.split_once('}'))
                .ok_or(UrlTemplateError::LonelyBrace)?;
            pieces.push(Piece::Text(before.to_owned()));
            pieces.push(match name {
                "kind" => Piece::Kind,
                "id" => Piece::Id,
                unknown => return Err(UrlTemplateError::UnknownPlaceholder(unknown.to_owned())),
            });
            rest = after;
        }
        pieces.push(Piece::Text(rest.to_owned()));
        let template = Self { pieces };
        template.fill("kind", "id")?;
        Ok(template)
    }
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

    fn filled(template: &str, kind: &str, id: &str) -> String {
        let template: UrlTemplate = template.parse().unwrap();
        template.fill(kind, id).unwrap().to_string()
    }

    #[test]
    fn placeholders_are_replaced_wherever_they_stand() {
        assert_eq!(filled("http://a/send", "direct", "7"), "http://a/send");
        assert_eq!(
            filled("http://a/{kind}/r/{id}?k={kind}", "direct", "7"),
            "http://a/direct/r/7?k=direct"
        );
        assert_eq!(filled("https://{kind}.a/{id}", "direct", "7"), "https://direct.a/7");
    }

    #[test]
    fn what_replaces_them_stays_in_its_segment() {
        assert_eq!(
            filled("http://a/r/{id}/x", "k", "../b c?d#e%/é"),
            "http://a/r/..%2Fb%20c%3Fd%23e%25%2F%C3%A9/x"
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, part) in [
            ("http://a/{name}", "there is no placeholder {name}"),
            ("http://a/{id", "no partner"),
            ("http://a/id}", "no partner"),
            ("a/{id}", "not a URL"),
            ("ftp://a/{id}", "http:// or https://"),
        ] {
            let error = text.parse::<UrlTemplate>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
