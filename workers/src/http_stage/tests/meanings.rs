//! The outcome of each answer of the service.

use tidegate::stage::Receipt;

use super::*;

/// A server error is no refusal: the check is retried.
fn is_retried(check: Check, status: u16, expected_after: Option<Duration>) {
    match check {
        Check::Retry { error, after } => {
            assert!(status >= 500 || [401, 403].contains(&status), "{status}");
            assert_eq!(error.code, format!("http_{status}"));
            assert_eq!(after, expected_after, "{status}");
        }
        other => {
            assert!(status < 500, "{status}");
            assert_eq!(other, Check::Snooze { after: expected_after }, "{status}");
        }
    }
}

#[tokio::test]
async fn every_status_has_its_meaning() {
    for status in [200, 201, 202, 204] {
        let (check, sent, found) = outcomes(status, &[], "").await;
        assert_eq!(check, Check::Ready, "{status}");
        assert_eq!(sent, Sent::Receipt(Receipt::default()), "{status}");
        assert_eq!(found, Ok(Found::Receipt(Receipt::default())), "{status}");
    }
    for (status, left) in [
        (301, true),
        (303, true),
        (308, true),
        (401, false),
        (403, false),
        (408, true),
        (409, true),
        (425, false),
        (429, false),
        (500, true),
        (502, true),
        (503, true),
        (504, true),
        (599, true),
    ] {
        let (check, sent, found) = outcomes(status, &[], "").await;
        is_retried(check, status, None);
        let code = format!("http_{status}");
        assert_eq!(retry(sent), (code.clone(), None, left), "{status}");
        assert_eq!(found.unwrap_err().code, code);
    }
    for status in [400, 404, 405, 410, 413, 422, 451] {
        let (check, sent, found) = outcomes(status, &[], "").await;
        assert!(matches!(&check, Check::Failed(error) if error.code == "not_possible"), "{check:?}");
        assert!(matches!(&sent, Sent::Rejected(error) if error.code == "rejected"), "{sent:?}");
        let expected = match status {
            404 => Some(Found::Nothing),
            410 => Some(Found::Never),
            _ => None,
        };
        assert_eq!(found.ok(), expected, "{status}");
    }
}

#[tokio::test]
async fn the_services_retry_after_is_honoured() {
    let seven = Some(Duration::from_secs(7));
    for status in [409, 425, 429, 500, 503] {
        let (check, sent, _) = outcomes(status, &[("retry-after", "7")], "").await;
        is_retried(check, status, seven);
        // A 503 with a time is an overload: it refused the send.
        let left = matches!(status, 409 | 500);
        assert_eq!(retry(sent), (format!("http_{status}"), Some(7), left));
    }
    let fake = Fake::start(|| {
        let then = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(60));
        response(429, &[("retry-after", &then)], "")
    })
    .await;
    let (_, after, _) = retry(fake.stages("").1.send(&request()).await);
    assert!(matches!(after, Some(58..=60)), "{after:?}");
}

#[tokio::test]
async fn a_receipt_is_read_from_body_or_headers() {
    let receipt = |reference: Option<&str>, response: Option<&str>| {
        Sent::Receipt(Receipt {
            reference: reference.map(str::to_owned),
            response: response.map(|text| text.parse().unwrap()),
        })
    };
    let plain: &[_] = &[("content-type", "text/plain"), ("location", "/jobs/1")];
    let headers: &[_] = &[("tidegate-reference", "t-1"), ("location", "/jobs/1")];
    let cases: [(&'static [_], &'static str, Sent); 11] = [
        (&[JSON], r#"{"reference":"r-1","more":0}"#, receipt(Some("r-1"), None)),
        (&[JSON], r#"{"reference":17}"#, receipt(Some("17"), None)),
        (&[JSON], r#"{"response":{"x":1}}"#, receipt(None, Some(r#"{"x":1}"#))),
        // No number is rounded, and none is too large.
        (
            &[JSON],
            r#"{"reference":123456789012345678901234567890}"#,
            receipt(Some("123456789012345678901234567890"), None),
        ),
        (
            &[JSON],
            r#"{"reference":-1.10e400,"response":[1e400,0.1000]}"#,
            receipt(Some("-1.10e400"), Some("[1e400,0.1000]")),
        ),
        (&[JSON], r#"{"reference":"r","n":1e400}"#, receipt(Some("r"), None)),
        // Whether it can be stored is the database's to say, and the service has taken the request.
        (&[JSON], r#"{"response":[{"a\u0000":1}]}"#, receipt(None, Some(r#"[{"a\u0000":1}]"#))),
        (&[], r#"{"reference":null,"response":null}"#, receipt(None, None)),
        (headers, "", receipt(Some("t-1"), None)),
        (headers, r#"{"reference":"r-1"}"#, receipt(Some("r-1"), None)),
        (plain, "thank you", receipt(Some("/jobs/1"), None)),
    ];
    for (headers, body, expected) in cases {
        let (_, sent, found) = outcomes(202, headers, body).await;
        assert_eq!(sent, expected, "{body}");
        let Ok(Found::Receipt(receipt)) = found else { panic!("no receipt in {body}") };
        assert_eq!(Sent::Receipt(receipt), expected, "{body}");
    }
}

#[tokio::test]
async fn a_receipt_that_cannot_be_read_is_asked_for_again() {
    for body in [
        "thank you",
        r#"{"reference":"#,
        "[]",
        "7",
        r#"{"reference":{}}"#,
        r#"{"reference":"a\u0000b"}"#,
        r#"{"reference":true}"#,
    ] {
        let (check, sent, found) = outcomes(200, &[JSON], body).await;
        assert_eq!(check, Check::Ready, "a check's body does not matter");
        assert_eq!(retry(sent), ("unreadable_receipt".to_owned(), None, true), "{body}");
        assert_eq!(found.unwrap_err().code, "unreadable_receipt");
    }
    let long = format!(r#"{{"reference":"{}"}}"#, "x".repeat(1025));
    let (_, sent, _) = outcomes(200, &[JSON], long.leak()).await;
    assert_eq!(retry(sent).0, "unreadable_receipt");
    for name in ["tidegate-reference", "location"] {
        let (_, sent, _) = outcomes(202, vec![(name, "jobs/\u{e9}")].leak(), "").await;
        assert_eq!(retry(sent).0, "unreadable_receipt", "{name}");
    }
}

#[tokio::test]
async fn a_refusal_is_passed_on_in_the_services_own_words() {
    let headers: &[_] = &[("content-type", "application/problem+json; charset=utf-8")];
    let body = r#"{"title":"No","detail":"the account is closed","code":"account_closed","retryable":true}"#;
    let error = RequestError::new("account_closed", "the account is closed", true);
    let (check, sent, _) = outcomes(422, headers, body).await;
    assert_eq!(check, Check::Failed(error.clone()));
    assert_eq!(sent, Sent::Rejected(error));

    // A number that no program could hold does not hide the words beside it.
    let body = r#"{"detail":"the account is closed","code":"account_closed","retryable":true,"limit":1e400}"#;
    let (_, sent, _) = outcomes(422, headers, body).await;
    assert_eq!(sent, Sent::Rejected(RequestError::new("account_closed", "the account is closed", true)));

    let (_, sent, _) = outcomes(400, headers, r#"{"title":"No","code":"two words"}"#).await;
    assert_eq!(sent, Sent::Rejected(RequestError::new("rejected", "No", false)));
    let (_, sent, _) = outcomes(400, &[("content-type", "text/html")], "<h1>No</h1>").await;
    let message = "the service answered 400 Bad Request";
    assert_eq!(sent, Sent::Rejected(RequestError::new("rejected", message, false)));
}
