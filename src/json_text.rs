//! JSON as text.

mod limits;

use std::{fmt, ops::Deref, str::FromStr};

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

pub use self::limits::objection;

/// JSON as text that was not parsed, so that its numbers keep all their digits: a [`Value`] holds those that no integer
/// type does as an `f64`.
///
/// Text becomes it by [`str::parse`], a value of one's own by `into`.
///
/// ```
/// # use tidegate::request::JsonText;
/// let amount: JsonText = "123456789012345678901.10".parse()?;
/// assert_eq!(amount.get(), "123456789012345678901.10");
/// let word: JsonText = "paid".into();
/// assert_eq!(word.get(), r#""paid""#);
/// # Ok::<_, serde_json::Error>(())
/// ```
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JsonText(Box<RawValue>);

impl JsonText {
    /// Any value as JSON.
    ///
    /// # Errors
    ///
    /// When it is none, such as a map whose keys are no texts.
    pub fn of(value: &impl Serialize) -> serde_json::Result<Self> {
        serde_json::value::to_raw_value(value).map(Self)
    }

    /// The same JSON without NUL characters, of which PostgreSQL stores none.
    pub(crate) fn without_nul(self) -> Self {
        const NUL: &str = "0000";
        let text = self.get();
        if !text.contains(r"\u0000") {
            return self;
        }
        // In JSON a backslash always begins an escape, which has one more character, or a `u` and four.
        let mut parts = text.split('\\');
        let mut clean = parts.next().unwrap_or_default().to_owned();
        while let Some(part) = parts.next() {
            if let Some(rest) = part.strip_prefix('u').and_then(|part| part.strip_prefix(NUL)) {
                clean += rest;
            } else if part.is_empty() {
                clean += r"\\";
                clean += parts.next().unwrap_or_default();
            } else {
                clean.push('\\');
                clean += part;
            }
        }
        clean.parse().unwrap_or(self)
    }
}

impl<T: Into<Value>> From<T> for JsonText {
    fn from(value: T) -> Self {
        // A `Value` is always JSON.
        Self::of(&value.into()).unwrap_or_else(|_| Self(RawValue::NULL.to_owned()))
    }
}

impl FromStr for JsonText {
    type Err = serde_json::Error;

    fn from_str(text: &str) -> serde_json::Result<Self> {
        RawValue::from_string(text.to_owned()).map(Self)
    }
}

impl Deref for JsonText {
    type Target = RawValue;

    fn deref(&self) -> &RawValue {
        &self.0
    }
}

/// The same text.
impl PartialEq for JsonText {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for JsonText {}

impl fmt::Debug for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nul_characters_go_and_what_looks_like_them_stays() {
        for (text, clean) in [
            (r#"{"a\u0000":["\u0000b",1e400]}"#, r#"{"a":["b",1e400]}"#),
            (r#""\\u0000""#, r#""\\u0000""#),
            (r#""\\\u0000\\\\u0000\"\u0001""#, r#""\\\\\\u0000\"\u0001""#),
            (r#""\\""#, r#""\\""#),
        ] {
            assert_eq!(text.parse::<JsonText>().unwrap().without_nul().get(), clean);
        }
    }
}
