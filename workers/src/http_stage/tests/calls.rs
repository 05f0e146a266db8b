//! The calls of the service, and the outcomes without an answer.

use tidegate::request::Phases;

use super::*;
use crate::from_flags;

#[tokio::test]
async fn a_call_carries_the_payload_and_its_headers() {
    let fake = Fake::start(|| response(200, &[], "")).await;
    let (readiness, transact) = fake.stages("--header Authorization:Bearer-abc");
    let request = request();
    let before = chrono::Utc::now();
    readiness.check(&request).await;
    transact.send(&request).await;
    transact.find_receipt(&request).await.unwrap();
    let after = chrono::Utc::now();
    let seen = fake.seen.lock().unwrap();
    let calls: Vec<_> = seen.iter().map(|(method, uri, _, body)| format!("{method} {uri} {body}")).collect();
    let expected = [
        r#"POST /check/direct {"secret":7}"#,
        r#"POST /send/direct {"secret":7}"#,
        &format!("GET /receipt/direct/{} ", request.id),
    ];
    assert_eq!(calls, expected);
    for (_, _, headers, _) in seen.iter() {
        assert_eq!(headers["idempotency-key"], request.id.to_string());
        assert_eq!(headers["tidegate-kind"], "direct");
        assert_eq!(headers["tidegate-attempt"], "2");
        assert_eq!(headers["authorization"], "Bearer-abc");
        let began = headers["tidegate-began-at"].to_str().unwrap();
        let began: chrono::DateTime<chrono::Utc> = began.parse().unwrap();
        assert!(before - chrono::TimeDelta::microseconds(1) < began && began <= after);
    }
    assert_eq!(seen[1].2["content-type"], "application/json");
}

#[tokio::test]
async fn a_long_answer_is_not_read_to_its_end() {
    for chunked in [false, true] {
        let fake = Fake::start(move || {
            let text = "x".repeat(4096);
            let body = if chunked {
                let chunks = vec![Ok::<_, std::io::Error>(text.clone()), Ok(text)];
                Body::from_stream(futures_util::stream::iter(chunks))
            } else {
                Body::from(text)
            };
            Response::builder().header(JSON.0, JSON.1).body(body).unwrap()
        })
        .await;
        let (readiness, transact) = fake.stages("--max-response-bytes 4095 --answer envelope");
        assert_eq!(readiness.check(&request()).await, Check::Ready);
        assert_eq!(retry(transact.send(&request()).await).0, "unreadable_receipt");
    }
}

fn retry_code(check: Check) -> String {
    match check {
        Check::Retry { error, after: None } => error.code,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn no_connection_means_that_nothing_has_left() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let (readiness, transact) = stages_at(&format!("http://{address}"), "direct", "");
    assert_eq!(retry_code(readiness.check(&request()).await), "connect");
    let sent = transact.send(&request()).await;
    let Sent::Retry { error, .. } = &sent else { panic!("{sent:?}") };
    assert!(!error.message.contains(&address.to_string()), "{}", error.message);
    assert_eq!(retry(sent), ("connect".to_owned(), None, false));
    assert_eq!(transact.find_receipt(&request()).await.unwrap_err().code, "connect");
}

#[tokio::test]
async fn a_service_that_does_not_begin_in_time_may_have_taken_it() {
    let fake = Fake::start_slow(Duration::from_secs(60), || response(200, &[], "")).await;
    let (readiness, transact) = fake.stages("--connect-timeout 50ms --first-byte-timeout 50ms");
    assert_eq!(retry_code(readiness.check(&request()).await), "timeout");
    let sent = transact.send(&request()).await;
    assert_eq!(message(&sent), "the service did not answer in time: cut by --first-byte-timeout 50ms");
    assert_eq!(retry(sent), ("timeout".to_owned(), None, true));
}

fn message(sent: &Sent) -> &str {
    match sent {
        Sent::Retry { error, .. } => &error.message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_answer_may_take_as_long_as_the_policy_allows() {
    let HttpOptions { first_byte_timeout, body_timeout, .. } = HttpOptions::default();
    assert_eq!((first_byte_timeout, body_timeout), (None, None));
}

/// An answer whose body does not end.
fn endless() -> Response<Body> {
    let body = futures_util::stream::pending::<Result<String, std::io::Error>>();
    Response::new(Body::from_stream(body))
}

#[tokio::test]
async fn a_body_that_does_not_end_in_time_is_unreadable() {
    let (readiness, transact) = Fake::start(endless).await.stages("--body-timeout 50ms");
    assert_eq!(readiness.check(&request()).await, Check::Ready);
    let sent = transact.send(&request()).await;
    assert!(message(&sent).ends_with("did not end in time: cut by --body-timeout 50ms"));
    assert_eq!(retry(sent).0, "unreadable_receipt");
}

#[tokio::test]
async fn a_policy_s_phases_take_the_place_of_the_options() {
    let phases = |connect, first_byte, body| {
        let mut request = request();
        request.phases = Some(Phases {
            connect: Duration::from_millis(connect),
            first_byte: Duration::from_millis(first_byte),
            body: Duration::from_millis(body),
        });
        request
    };
    let hour = 3_600_000;
    let silent = Fake::start_slow(Duration::from_secs(3600), || response(200, &[], "")).await;
    let (readiness, transact) = silent.stages("--first-byte-timeout 1h");
    for connect in [20, 30, 20] {
        let request = phases(connect, 20, hour);
        assert_eq!(retry_code(readiness.check(&request).await), "timeout");
        let sent = transact.send(&request).await;
        assert!(message(&sent).ends_with("cut by first_byte_ms = 20 of the policy"));
        assert_eq!(retry(sent).0, "timeout");
    }

    let (_, transact) = Fake::start(endless).await.stages("--body-timeout 1h");
    let sent = transact.send(&phases(hour, hour, 50)).await;
    assert_eq!(retry(sent).0, "unreadable_receipt");
}

#[tokio::test]
async fn a_service_that_hangs_up_may_have_taken_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut buffer = [0; 64];
            let _ = stream.readable().await;
            let _ = stream.try_read(&mut buffer);
        }
    });
    let (_, transact) = stages_at(&format!("http://{address}"), "direct", "");
    let sent = retry(transact.send(&request()).await);
    assert_eq!(sent, ("connection_lost".to_owned(), None, true));
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let fake = Fake::start(|| response(307, &[("location", "/elsewhere")], "")).await;
    let sent = fake.stages("").1.send(&request()).await;
    assert!(matches!(&sent, Sent::Retry { error, .. } if error.message.contains("redirects")), "{sent:?}");
    assert_eq!(fake.seen.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn without_a_receipt_url_the_service_is_not_called() {
    let fake = Fake::start(|| response(200, &[], "")).await;
    let (_, transact) = fake.stages("");
    let transact = HttpTransact { receipt: None, ..transact };
    assert_eq!(transact.find_receipt(&request()).await, Ok(Found::Nothing));
    assert!(fake.seen.lock().unwrap().is_empty());
}

#[test]
fn stages_are_made_for_the_kinds_that_have_urls() {
    let flows = [("direct", Flow::Direct), ("report", Flow::Decrypt), ("vote", Flow::Decrypt)];
    let flows: BTreeMap<_, _> = flows.map(|(kind, flow)| (kind.to_owned(), flow)).into();
    let made = |flags: &str| stages(&from_flags(flags), &flows).map(|stages| format!("{stages:?}"));

    let named = "--check-url vote=http://a/check --send-url http://a/send --send-url direct=http://b/send --kind swap";
    let stages = made(named).unwrap();
    assert!(stages.contains(r#"readiness: ["vote"]"#), "{stages}");
    assert!(stages.contains(r#"transact: ["direct", "swap", "vote"]"#), "{stages}");

    // Without a name: all that the database has.
    let stages = made("--check-url http://a/{kind} --send-url http://a/{kind}/send").unwrap();
    assert!(stages.contains(r#"transact: ["direct", "report", "vote"]"#), "{stages}");
    for ambiguous in [
        "--send-url http://a/send",
        "--send-url http://a/{kind} --check-url http://a/check",
        "--send-url http://a/send --send-url direct=http://b/send",
    ] {
        let refused = made(ambiguous).unwrap_err().to_string();
        assert!(refused.contains("report, vote: name those that it is for with --kind"), "{refused}");
    }
    for clear in [
        "--send-url http://a/send --kind direct",
        "--send-url http://a/send --send-url vote=http://b/send --send-url direct=http://b/send",
        "--check-url report=http://a/check --check-url http://a/check",
    ] {
        assert!(made(clear).is_ok(), "{clear}");
    }
}
