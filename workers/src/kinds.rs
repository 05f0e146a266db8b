//! The kinds of the example, and the form of a kind's name.

use tidegate::request::Flow;

use crate::ParseError;

/// The kinds of `tidegate init --example relayer`.
pub(crate) const EXAMPLE: [(&str, Flow); 4] = [
    ("public_decrypt", Flow::Decrypt),
    ("user_decrypt", Flow::Decrypt),
    ("input_proof", Flow::Proof),
    ("direct", Flow::Direct),
];

/// Reads the name of a kind.
pub(crate) fn kind_name(text: &str) -> Result<String, ParseError> {
    let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if text.len() <= 55 && text.starts_with(|first: char| first.is_ascii_lowercase()) && text.bytes().all(word) {
        return Ok(text.to_owned());
    }
    let rule = "it is lower snake case, at most 55 characters, and starts with a letter";
    Err(ParseError(format!("\"{text}\" is not a kind's name: {rule}")))
}
