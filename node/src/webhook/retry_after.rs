//! The header `Retry-After` of other services' answers: RFC 9110, section 10.2.3.

use std::time::{Duration, SystemTime};

use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};

/// A longer time counts as this.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// The `Retry-After` of an answer that came just now: seconds or an HTTP-date; a day at most.
#[must_use]
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    retry_after_at(headers, SystemTime::now())
}

fn retry_after_at(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let after = if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // All digits: a number that overflows is far beyond the bound.
        text.parse().map_or(LONGEST, Duration::from_secs)
    } else {
        let then = httpdate::parse_http_date(text).ok()?;
        // By the service's own clock, if the answer has its date, so that a clock skew has no effect.
        let now = headers.get(DATE).and_then(|date| httpdate::parse_http_date(date.to_str().ok()?).ok()).unwrap_or(now);
        then.duration_since(now).unwrap_or_default()
    };
    Some(after.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    const NOW: &str = "Wed, 21 Oct 2026 07:28:00 GMT";

    fn read(retry_after: &str, date: Option<&str>) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, HeaderValue::from_str(retry_after).unwrap());
        if let Some(date) = date {
            headers.insert(DATE, HeaderValue::from_str(date).unwrap());
        }
        retry_after_at(&headers, httpdate::parse_http_date(NOW).unwrap())
    }

    #[test]
    fn seconds_and_dates_are_read_and_nonsense_is_not() {
        let seconds = |count| Some(Duration::from_secs(count));
        assert_eq!(read("7", None), seconds(7));
        assert_eq!(read(" 120 ", None), seconds(120));
        assert_eq!(read("0", None), seconds(0));
        assert_eq!(read("99999999999999999999999", None), seconds(86400));
        assert_eq!(read("Wed, 21 Oct 2026 07:28:30 GMT", None), seconds(30));
        assert_eq!(read("Wed, 21 Oct 2026 07:27:00 GMT", None), seconds(0), "in the past");
        for nonsense in ["", "soon", "-1", "1.5", "2026-10-21T07:28:30Z"] {
            assert_eq!(read(nonsense, None), None, "{nonsense}");
        }
        assert_eq!(retry_after_at(&HeaderMap::new(), SystemTime::now()), None);
    }

    #[test]
    fn a_date_is_read_by_the_services_own_clock() {
        let behind = Some("Wed, 21 Oct 2026 05:00:00 GMT");
        assert_eq!(read("Wed, 21 Oct 2026 05:00:30 GMT", behind), Some(Duration::from_secs(30)));
    }
}
