//! Signatures of deliveries, by [Standard Webhooks](https://www.standardwebhooks.com): they prove the sender, and their
//! time prevents a third party from replaying a delivery.

use standardwebhooks::{Webhook, WebhookError};

/// The value of `webhook-signature`: one signature for each secret, because two are in force while one replaces the
/// other. `at` counts seconds from 1970.
///
/// # Errors
///
/// A secret that is not `whsec_` and base64.
pub fn sign<'a>(
    secrets: impl IntoIterator<Item = &'a str>,
    id: &str,
    at: i64,
    body: &[u8],
) -> Result<String, WebhookError> {
    let signatures = secrets.into_iter().map(|secret| Webhook::new(secret)?.sign(id, at, body));
    Ok(signatures.collect::<Result<Vec<_>, _>>()?.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_secret_signs_as_another_hmac_does() {
        // base64.b64encode(hmac.digest(base64.b64decode(secret), b'a.1800000000.{"a":1}', "sha256")) in Python
        let secrets = [
            "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
            "whsec_YWJjZGVmMDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODk=",
        ];
        let signed =
            ["v1,hNyrFArbp7JIJf1NlMtVA664CKV0GWy7sV4bhTbLyPE=", "v1,drjkrpr7YPJVKodtOCUZKBC6Q8KQ+PAyZrGXibCTl8k="];
        assert_eq!(sign(secrets, "a", 1_800_000_000, br#"{"a":1}"#).unwrap(), signed.join(" "));
    }

    #[test]
    fn a_secret_that_is_not_base64_is_an_error() {
        assert!(sign(["whsec_?"], "a", 0, b"{}").is_err());
    }
}
