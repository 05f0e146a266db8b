//! Signatures of deliveries: they prove the sender, and their time prevents a third party from replaying a delivery.

use hmac::{Hmac, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

/// How far a signature's time may be from the receiver's clock, in seconds.
pub const TOLERANCE: u64 = 300;

/// The value of `Tidegate-Signature`: `t=SECONDS,v1=HEX`, with one `v1` for each secret.
///
/// `HEX` is the HMAC-SHA256 of `SECONDS.BODY` under the secret, in lower case; `SECONDS` count from 1970.
#[must_use]
pub fn sign<'a>(secrets: impl IntoIterator<Item = &'a str>, at: i64, body: &[u8]) -> String {
    let part = |secret| format!(",v1={}", tag(secret, at, body));
    format!("t={at}{}", secrets.into_iter().map(part).collect::<String>())
}

/// Whether this is a signature of `body` under `secret`, made within [`TOLERANCE`] of `now` (seconds from 1970).
///
/// Every `v1` is checked, in constant time: during a rotation of the secret there are two.
#[must_use]
pub fn verify(signature: &str, body: &[u8], secret: &str, now: i64) -> bool {
    let mut parts = signature.split(',').filter_map(|part| part.split_once('='));
    let Some(("t", at)) = parts.next() else {
        return false;
    };
    at.parse().is_ok_and(|at: i64| {
        let expected = tag(secret, at, body);
        let is_expected = |(name, tag): (&str, &str)| name == "v1" && tag.as_bytes().ct_eq(expected.as_bytes()).into();
        at.abs_diff(now) <= TOLERANCE && parts.any(is_expected)
    })
}

fn tag(secret: &str, at: i64, body: &[u8]) -> String {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else {
        unreachable!("HMAC takes a key of any length")
    };
    mac.update(format!("{at}.").as_bytes());
    mac.update(body);
    format!("{:x}", mac.finalize().into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_0123456789abcdef0123456789abcdef";
    const AT: i64 = 1_800_000_000;

    #[test]
    fn a_signature_equals_that_of_another_hmac_tool() {
        // printf '1800000000.{"a":1}' | openssl dgst -sha256 -hmac whsec_0123456789abcdef0123456789abcdef
        assert_eq!(
            sign([SECRET], AT, br#"{"a":1}"#),
            "t=1800000000,v1=c8b98ae30ec728e8653564bb3fe6c9c7c0bfdb2bee626e024a2d79332fb0fbaf"
        );
    }

    #[test]
    fn only_the_right_secret_body_and_time_verify() {
        let signature = sign(["another", SECRET], AT, b"body");

        assert!(verify(&signature, b"body", SECRET, AT));
        assert!(verify(&signature, b"body", "another", AT + 300));
        assert!(!verify(&signature, b"body", "wrong", AT));
        assert!(!verify(&signature, b"body2", SECRET, AT));
        assert!(!verify(&signature, b"body", SECRET, AT + 301));
        assert!(!verify(&signature, b"body", SECRET, AT - 301));
        let later = signature.replacen("t=18", "t=19", 1);
        assert!(!verify(&later, b"body", SECRET, AT + 100_000_000));
    }

    #[test]
    fn malformed_signatures_do_not_verify() {
        for signature in
            ["", "t=", "v1=00", "t=1800000000", "t=1800000000,v1=", "t=1800000000,v1=zz", "t=1800000000,v1=é"]
        {
            assert!(!verify(signature, b"body", SECRET, AT), "{signature}");
        }
    }
}
