//! The built-in kinds, and the form of a kind's name.

use tidegate::request::Flow;

/// The kinds that every database has.
pub(crate) const BUILT_IN: [(&str, Flow); 4] = [
    ("public_decrypt", Flow::Decrypt),
    ("user_decrypt", Flow::Decrypt),
    ("input_proof", Flow::Proof),
    ("direct", Flow::Direct),
];

/// Whether a kind can have this name: lower snake case, from a letter, 63 characters at most.
pub(crate) fn is_kind_name(name: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    name.len() <= 63 && name.starts_with(|first: char| first.is_ascii_lowercase()) && name.bytes().all(word)
}
