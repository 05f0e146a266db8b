//! Headers that an operator adds to every call.

use std::{convert::Infallible, fmt, str::FromStr};

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::ParseError;

/// Headers that the protocol sets itself.
const RESERVED: [&str; 8] = [
    "idempotency-key",
    "tidegate-kind",
    "tidegate-attempt",
    "tidegate-began-at",
    "traceparent",
    "content-type",
    "content-length",
    "host",
];

/// A header, written `Name: value`, as it was given. It counts as secret: it is neither logged nor shown.
///
/// Any text is accepted at first, and checked by [`header_map`]: clap would repeat a refused text, and so the secret,
/// in its message.
#[derive(Clone, PartialEq, Eq)]
pub struct HeaderLine(String);

impl FromStr for HeaderLine {
    type Err = Infallible;

    fn from_str(line: &str) -> Result<Self, Infallible> {
        Ok(Self(line.to_owned()))
    }
}

impl fmt::Debug for HeaderLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HeaderLine(…)")
    }
}

impl HeaderLine {
    /// No error repeats the text.
    fn parse(&self) -> Result<(HeaderName, HeaderValue), String> {
        let (name, value) = self.0.split_once(':').ok_or("a header has no colon: write it as 'Name: value'")?;
        let name: HeaderName =
            name.trim().parse().map_err(|_| "a header's name has characters that HTTP does not allow")?;
        if RESERVED.contains(&name.as_str()) {
            return Err(format!("the header {name} is set by the protocol: leave it out"));
        }
        let mut value = HeaderValue::from_str(value.trim())
            .map_err(|_| format!("the value of the header {name} has characters that HTTP does not allow"))?;
        value.set_sensitive(true);
        Ok((name, value))
    }
}

/// The headers of all lines; a name that comes twice is sent twice, an empty line is ignored.
///
/// # Errors
///
/// When a line is not a header, or one that the protocol sets.
pub fn header_map(lines: &[HeaderLine]) -> Result<HeaderMap, ParseError> {
    let mut headers = HeaderMap::new();
    for line in lines.iter().filter(|line| !line.0.trim().is_empty()) {
        let (name, value) = line.parse().map_err(ParseError)?;
        headers.append(name, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<HeaderMap, ParseError> {
        header_map(&["".parse().unwrap(), line.parse().unwrap()])
    }

    #[test]
    fn a_header_is_read_and_its_value_not_shown() {
        let headers = read("Authorization:  Bearer a:b ").unwrap();
        assert_eq!(headers["authorization"], "Bearer a:b");
        assert!(!format!("{headers:?}").contains("Bearer"));
        let line: HeaderLine = "Authorization: Bearer".parse().unwrap();
        assert!(!format!("{line:?}").contains("Bearer"));
        for (line, part) in [
            ("secret", "'Name: value'"),
            ("secret name: x", "name"),
            ("X: secret\nb", "the value of the header x"),
            ("Idempotency-Key: secret", "set by the protocol"),
        ] {
            let error = read(line).unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains("secret"), "{error}");
        }
    }
}
