//! API keys: their form, their generation and their verification. No I/O.
//!
//! A key is `tg_ID_SECRET`: 16 hex digits that identify it, and 64 that are its 256 random bits. Only the
//! SHA-256 of the whole text is kept. Passwords need a slow, salted hash because they can be guessed; 256 random bits
//! cannot, so a fast one is as safe here, and does not let a flood of wrong keys burn the node's processor.

use std::{fmt, str::FromStr};

use rand::{TryRngCore, rngs::OsRng};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::request::{UnknownWord, words};

const PREFIX: &str = "tg_";
const ID_DIGITS: usize = 16;
const SECRET_DIGITS: usize = 64;

words!(
    /// The permission that a key gives its bearer.
    Scope, "scope: submit, submit-accepted, respond, read, payload or admin", {
        /// Submit, and see, list and cancel the requests of the key's submitter.
        Submit = "submit",
        /// The same, and submit work that was accepted elsewhere, which no gate refuses.
        #[serde(rename = "submit-accepted")]
        SubmitAccepted = "submit-accepted",
        /// Deliver responses to any request.
        Respond = "respond",
        /// See the pages for operators, but payloads and responses.
        Read = "read",
        /// See payloads and responses on these pages, too.
        Payload = "payload",
        /// Everything but payloads on pages: the admin endpoints, acts on pages, and the requests of all submitters.
        Admin = "admin",
    }
);

impl Scope {
    /// Whether a key with this scope may make calls that need the other.
    #[must_use]
    pub fn includes(self, needed: Self) -> bool {
        match (self, needed) {
            (Self::Admin, Self::Payload) => false,
            (Self::Admin, _) | (Self::SubmitAccepted, Self::Submit) | (Self::Payload, Self::Read) => true,
            _ => self == needed,
        }
    }
}

/// A key as its bearer has it. Its text is shown once and never logged, so there is no `Display`.
#[derive(Clone)]
pub struct ApiKey(String);

/// A text that is no key. The message does not repeat the text, which may be a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an API key is tg_, 16 hex digits, _ and 64 hex digits, all in lower case")]
pub struct NoApiKey;

impl ApiKey {
    /// A fresh one, from the operating system's random numbers.
    ///
    /// # Errors
    ///
    /// When the operating system has none.
    pub fn generate() -> std::io::Result<Self> {
        let mut random = [0; (ID_DIGITS + SECRET_DIGITS) / 2];
        OsRng.try_fill_bytes(&mut random).map_err(std::io::Error::other)?;
        let digits: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let (id, secret) = digits.split_at(ID_DIGITS);
        Ok(Self(format!("{PREFIX}{id}_{secret}")))
    }

    /// Reads a key; checks its form only.
    ///
    /// # Errors
    ///
    /// [`NoApiKey`].
    pub fn parse(text: &str) -> Result<Self, NoApiKey> {
        let (id, secret) = text.strip_prefix(PREFIX).and_then(|rest| rest.split_once('_')).ok_or(NoApiKey)?;
        let hex = |digits: &str| digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
        if id.len() == ID_DIGITS && secret.len() == SECRET_DIGITS && hex(id) && hex(secret) {
            Ok(Self(text.to_owned()))
        } else {
            Err(NoApiKey)
        }
    }

    /// The id, which is no secret.
    #[must_use]
    pub fn id(&self) -> &str {
        let start = PREFIX.len();
        &self.0[start..start + ID_DIGITS]
    }

    /// The whole text, for its bearer.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The hash that is stored.
    #[must_use]
    pub fn hash(&self) -> KeyHash {
        KeyHash(Sha256::digest(&self.0).into())
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ApiKey({}, …)", self.id())
    }
}

/// The SHA-256 of a key.
#[derive(Clone, Copy)]
pub struct KeyHash(pub [u8; 32]);

impl KeyHash {
    /// Whether it is the hash of this key. The time does not depend on where they differ.
    #[must_use]
    pub fn is_of(&self, key: &ApiKey) -> bool {
        self.0.ct_eq(&key.hash().0).into()
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyHash(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_key_reads_back_and_no_two_are_the_same() {
        let key = ApiKey::generate().unwrap();
        let other = ApiKey::generate().unwrap();

        let read = ApiKey::parse(key.expose()).unwrap();

        assert_eq!(read.id(), key.id());
        assert!(key.hash().is_of(&read));
        assert!(!key.hash().is_of(&other));
        assert_ne!(key.id(), other.id());
    }

    #[test]
    fn the_debug_output_of_a_key_does_not_have_its_secret() {
        let key = ApiKey::generate().unwrap();
        let secret = &key.expose()[PREFIX.len() + ID_DIGITS + 1..];

        assert!(!format!("{key:?}{:?}", key.hash()).contains(secret));
        assert!(format!("{key:?}").contains(key.id()));
    }

    #[test]
    fn a_text_that_is_not_exactly_a_key_is_refused() {
        let key = ApiKey::generate().unwrap();
        let key = key.expose();

        for text in [
            "",
            "tg_",
            "tg__",
            "secret",
            &key[..key.len() - 1],
            &format!("{key}0"),
            &format!(" {key}"),
            &key.to_uppercase(),
            &key.replace("tg_", "tk_"),
            &format!("tg_{}_{}", "g".repeat(16), "0".repeat(64)),
            &format!("tg_{}_{}", "0".repeat(16), "é".repeat(32)),
        ] {
            assert!(ApiKey::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_hash_is_of_the_whole_key() {
        let key = ApiKey::generate().unwrap();
        let other_id = format!("tg_{}_{}", "0".repeat(16), &key.expose()[PREFIX.len() + 17..]);

        assert!(!key.hash().is_of(&ApiKey::parse(&other_id).unwrap()));
    }
}
