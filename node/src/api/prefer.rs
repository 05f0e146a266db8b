//! The header `Prefer` (RFC 7240), which the server may ignore.

use std::time::Duration;

use axum::http::HeaderMap;

/// How long a caller would wait for the end of its request, in whole seconds.
///
/// Unknown and invalid preferences are ignored, as the RFC requires; the first of two equal ones counts.
pub(super) fn wait(headers: &HeaderMap) -> Option<Duration> {
    headers
        .get_all("prefer")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| split(value, ','))
        .find_map(|preference| {
            // After a semicolon come parameters of the preference; `wait` has none.
            let (name, value) = split(preference, ';').next()?.split_once('=').unwrap_or((preference, ""));
            name.trim().eq_ignore_ascii_case("wait").then(|| seconds(value.trim()))
        })?
}

/// A number of seconds, as a token or a quoted string; one that is too large saturates.
fn seconds(word: &str) -> Option<Duration> {
    let quoted = word.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let digits = quoted.unwrap_or(word);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| Duration::from_secs(digits.parse().unwrap_or(u64::MAX)))
}

/// The parts between separators that stand outside quoted strings.
fn split(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    let mut escaped = false;
    text.split(move |character| {
        if escaped {
            escaped = false;
            return false;
        }
        match character {
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            _ => return character == separator && !quoted,
        }
        false
    })
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn wait_of(values: &[&str]) -> Option<u64> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append("prefer", HeaderValue::from_str(value).unwrap());
        }
        wait(&headers).map(|wait| wait.as_secs())
    }

    #[test]
    fn the_wait_is_found_among_other_preferences() {
        for (values, expected) in [
            (vec!["wait=10"], Some(10)),
            (vec!["WAIT = 10"], Some(10)),
            (vec!["wait=\"10\""], Some(10)),
            (vec!["wait=0"], Some(0)),
            (vec!["respond-async, wait=10"], Some(10)),
            (vec!["respond-async", "wait=10"], Some(10)),
            (vec!["wait=10; x=5, return=minimal"], Some(10)),
            (vec![",, ,wait=10,"], Some(10)),
            (vec!["foo=\"a, wait=3\", wait=10"], Some(10)),
            (vec!["foo=\"a\\\", wait=3\", wait=10"], Some(10)),
            (vec!["foo; wait=3, wait=10"], Some(10)),
            (vec!["wait=99999999999999999999999"], Some(u64::MAX)),
        ] {
            assert_eq!(wait_of(&values), expected, "{values:?}");
        }
    }

    #[test]
    fn the_first_of_two_counts() {
        assert_eq!(wait_of(&["wait=1, wait=2"]), Some(1));
        assert_eq!(wait_of(&["wait=1", "wait=2"]), Some(1));
        assert_eq!(wait_of(&["wait=soon, wait=2"]), None);
    }

    #[test]
    fn invalid_preferences_are_ignored() {
        let values =
            r#"|wait|wait=|wait=-1|wait=1.5|wait=+1|wait=soon|wait="|wait=""|wait=1 2|waits=1|await=1|wait="10, foo"#;
        for value in values.split('|') {
            assert_eq!(wait_of(&[value]), None, "{value}");
        }
    }
}
