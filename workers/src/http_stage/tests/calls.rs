//! The calls of the service, and the outcomes without an answer.

use tidegate::request::Phases;

use super::*;

#[tokio::test]
async fn a_call_carries_the_payload_and_its_headers() {
    let fake = Fake::start(|| response(200, &[], "")).await;
    let (readiness, transact) = fake.stage_with(&HttpOptions {
        headers: vec!["Authorization: Bearer abc".parse().unwrap()],
        ..HttpOptions::default()
    });
    let request = request();
    readiness.check(&request).await;
    transact.send(&request).await;
    transact.find_receipt(&request).await.unwrap();
    let seen = fake.seen.lock().unwrap();
    let calls: Vec<_> = seen
        .iter()
        .map(|(m, uri, _, body)| (m.as_str(), uri.as_str(), body.as_str()))
        .collect();
    let receipt = format!("/receipt/direct/{}", request.id);
    let payload = r#"{"secret":7}"#;
    assert_eq!(
        calls,
        [
            ("POST", "/check/direct", payload),
            ("POST", "/send/direct", payload),
            ("GET", &receipt, "")
        ]
    );
    for (_, _, headers, _) in seen.iter() {
        assert_eq!(headers["idempotency-key"], request.id.to_string());
        assert_eq!(headers["tidegate-kind"], "direct");
        assert_eq!(headers["tidegate-attempt"], "2");
        assert_eq!(headers["authorization"], "Bearer abc");
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
            Response::builder()
                .status(200)
                .header(JSON.0, JSON.1)
                .body(body)
                .unwrap()
        })
        .await;
        let options = HttpOptions {
            max_response_bytes: 4095,
            ..HttpOptions::default()
        };
        let (readiness, transact) = fake.stage_with(&options);
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
    let (readiness, transact) = stage_at(address, &HttpOptions::default());
    assert_eq!(retry_code(readiness.check(&request()).await), "connect");
    let sent = transact.send(&request()).await;
    let Sent::Retry { error, .. } = &sent else {
        panic!("{sent:?}")
    };
    assert!(!error.message.contains(&address.to_string()), "{}", error.message);
    assert_eq!(retry(sent), ("connect".to_owned(), None, false));
    assert_eq!(transact.find_receipt(&request()).await.unwrap_err().code, "connect");
}

#[tokio::test]
async fn a_service_that_does_not_begin_in_time_may_have_taken_it() {
    let fake = Fake::start_slow(Duration::from_secs(60), || response(200, &[], "")).await;
    let (readiness, transact) = fake.stage_with(&HttpOptions {
        connect_timeout: Duration::from_millis(50),
        first_byte_timeout: Duration::from_millis(50),
        ..HttpOptions::default()
    });
    assert_eq!(retry_code(readiness.check(&request()).await), "timeout");
    assert_eq!(
        retry(transact.send(&request()).await),
        ("timeout".to_owned(), None, true)
    );
}

#[tokio::test]
async fn a_body_that_does_not_end_in_time_is_unreadable() {
    let fake = Fake::start(|| {
        let endless = futures_util::stream::pending::<Result<String, std::io::Error>>();
        Response::builder()
            .status(200)
            .body(Body::from_stream(endless))
            .unwrap()
    })
    .await;
    let options = HttpOptions {
        body_timeout: Duration::from_millis(50),
        ..HttpOptions::default()
    };
    let (readiness, transact) = fake.stage_with(&options);
    assert_eq!(readiness.check(&request()).await, Check::Ready);
    assert_eq!(retry(transact.send(&request()).await).0, "unreadable_receipt");
}

#[tokio::test]
async fn a_policy_s_phases_take_the_place_of_the_options() {
    let phases = |connect, first_byte, body| {
        let [connect, first_byte, body] = [connect, first_byte, body].map(Duration::from_millis);
        Request {
            phases: Some(Phases {
                connect,
                first_byte,
                body,
            }),
            ..request()
        }
    };
    let hour = 3_600_000;
    let silent = Fake::start_slow(Duration::from_secs(3600), || response(200, &[], "")).await;
    let (readiness, transact) = silent.stage_with(&HttpOptions {
        first_byte_timeout: Duration::from_secs(3600),
        ..HttpOptions::default()
    });
    for connect in [20, 30, 20] {
        let request = phases(connect, 20, hour);
        assert_eq!(retry_code(readiness.check(&request).await), "timeout");
        assert_eq!(retry(transact.send(&request).await).0, "timeout");
    }

    let endless = Fake::start(|| {
        let endless = futures_util::stream::pending::<Result<String, std::io::Error>>();
        Response::new(Body::from_stream(endless))
    })
    .await;
    let (_, transact) = endless.stage_with(&HttpOptions {
        body_timeout: Duration::from_secs(3600),
        ..HttpOptions::default()
    });
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
    let (_, transact) = stage_at(address, &HttpOptions::default());
    assert_eq!(
        retry(transact.send(&request()).await),
        ("connection_lost".to_owned(), None, true)
    );
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let hits = Arc::new(AtomicUsize::new(0));
    let counted = hits.clone();
    let fake = Fake::start(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        response(307, &[("location", "/elsewhere")], "")
    })
    .await;
    let sent = fake.stage().1.send(&request()).await;
    assert!(
        matches!(&sent, Sent::Retry { error, .. } if error.message.contains("redirects")),
        "{sent:?}"
    );
    assert_eq!(hits.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn without_a_receipt_url_nothing_is_asked() {
    let fake = Fake::start(|| response(200, &[], "")).await;
    let (_, transact) = fake.stage();
    let transact = HttpTransact {
        receipt: None,
        ..transact
    };
    assert_eq!(transact.find_receipt(&request()).await, Ok(None));
    assert!(fake.seen.lock().unwrap().is_empty());
}

#[test]
fn stages_are_made_for_the_kinds_that_have_urls() {
    let parse = |text: &str| text.parse().unwrap();
    let options = HttpOptions {
        check_urls: vec![parse("vote=http://a/check")],
        send_urls: vec![parse("http://a/send"), parse("direct=http://b/send")],
        kinds: vec!["swap".to_owned()],
        ..HttpOptions::default()
    };
    let stages = format!("{:?}", stages(&options).unwrap());
    assert!(stages.contains(r#"readiness: ["vote"]"#), "{stages}");
    assert!(
        stages.contains(r#"transact: ["direct", "input_proof", "public_decrypt", "swap", "user_decrypt", "vote"]"#),
        "{stages}"
    );
}
