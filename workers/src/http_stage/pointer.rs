//! Places in JSON by a pointer (RFC 6901).

use std::{collections::HashMap, str::FromStr};

use tidegate::request::JsonText;

use super::receipt::text_or_digits;
use crate::ParseError;

/// A place in JSON, such as `/result/0/id`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pointer(Vec<String>);

impl FromStr for Pointer {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let mut tokens = text.split('/');
        if tokens.next() != Some("") || text.is_empty() {
            return Err(ParseError(format!(
                "\"{text}\" is not a JSON pointer: it begins with a slash, such as /result"
            )));
        }
        let plain = |token: &str| token.replace("~1", "/").replace("~0", "~");
        Ok(Self(tokens.map(plain).collect()))
    }
}

impl Pointer {
    /// The value there, with all digits of its numbers; none for null.
    pub(super) fn value(&self, json: &JsonText) -> Option<JsonText> {
        let within = |json: JsonText, token: &String| {
            if json.get().starts_with('[') {
                let items: Vec<JsonText> = serde_json::from_str(json.get()).ok()?;
                return items.into_iter().nth(token.parse().ok()?);
            }
            let mut members: HashMap<String, JsonText> = serde_json::from_str(json.get()).ok()?;
            members.remove(token)
        };
        let found = self.0.iter().try_fold(json.clone(), within)?;
        Some(found).filter(|json| json.get() != "null")
    }
}

/// A place in JSON and what may stand there: written `/status=failed,cancelled`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Words {
    pointer: Pointer,
    words: Vec<String>,
}

impl FromStr for Words {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let (pointer, words) = text.split_once('=').unwrap_or((text, ""));
        let words: Vec<_> = words.split(',').map(str::to_owned).collect();
        if words.iter().any(String::is_empty) {
            return Err(ParseError(format!(
                "\"{text}\" has no words: it is a JSON pointer and what stands there, such as /status=failed,cancelled"
            )));
        }
        Ok(Self { pointer: pointer.parse()?, words })
    }
}

impl Words {
    /// The word that stands there, if it is one of these.
    pub(super) fn found(&self, json: &JsonText) -> Option<String> {
        let value = self.pointer.value(json)?;
        let word = text_or_digits(&value).unwrap_or_else(|| value.get().to_owned());
        self.words.contains(&word).then_some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::assert_refused;

    #[test]
    fn a_pointer_finds_a_value_with_its_digits() {
        let json = r#"{"a": [1, {"b/c": 0.10, "~": "x", "": null}], "d": true}"#.parse().unwrap();
        let at = |pointer: &str| pointer.parse::<Pointer>().unwrap().value(&json);
        let text = |pointer: &str| at(pointer).map(|json| json.get().to_owned());
        assert_eq!(text("/a/1/b~1c").as_deref(), Some("0.10"));
        assert_eq!(text("/a/1/~0").as_deref(), Some(r#""x""#));
        assert_eq!(text("/a/0").as_deref(), Some("1"));
        assert_eq!(text("/d").as_deref(), Some("true"));
        for none in ["/a/1/", "/a/2", "/a/x", "/d/e", "/e", "/"] {
            assert_eq!(text(none), None, "{none}");
        }
        let word = |words: &str| words.parse::<Words>().unwrap().found(&json);
        assert_eq!(word("/d=no,true").as_deref(), Some("true"));
        assert_eq!(word("/a/0=1").as_deref(), Some("1"));
        assert_eq!(word("/a/1/~0=y"), None);
    }

    #[test]
    fn an_error_says_how_it_is_written() {
        assert_refused::<Pointer>(&[("result", "begins with a slash"), ("", "begins with a slash")]);
        assert_refused::<Words>(&[("/status", "has no words"), ("/status=a,", "has no words"), ("s=a", "slash")]);
    }
}
