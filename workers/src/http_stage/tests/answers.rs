//! The bodies of a service that knows nothing of Tidegate, as responses.

use tidegate::stage::Receipt;

use super::*;

/// The receipt of a send and of the search for it, which are the same.
async fn receipt_of(
    flags: &str,
    answer: impl Fn() -> Response<Body> + Send + Sync + 'static,
) -> (Option<String>, Option<String>) {
    let (_, transact) = Fake::start(answer).await.stages(flags);
    let Sent::Receipt(receipt) = transact.send(&request()).await else { panic!("no receipt") };
    let found = transact.find_receipt(&request()).await;
    assert_eq!(found, Ok(Found::Receipt(receipt.clone())));
    (receipt.reference, receipt.response.map(|json| json.get().to_owned()))
}

async fn response_of(status: u16, headers: &'static [(&'static str, &'static str)], body: &'static [u8]) -> String {
    let answer = move || response(status, headers, "").map(|_| Body::from(body));
    receipt_of("", answer).await.1.unwrap()
}

const TEXT: (&str, &str) = ("content-type", "text/plain; charset=UTF-8");

#[tokio::test]
async fn the_whole_body_is_the_response() {
    let json: &[_] = &[("content-type", "application/json; charset=utf-8")];
    let jobs: &[_] = &[("content-type", "application/hal+json")];
    let cases: [(u16, &'static [_], &'static str, &str); 14] = [
        (201, json, r#"{"payment_id":"p-1"}"#, r#"{"payment_id":"p-1"}"#),
        // Members of an envelope mean nothing here.
        (200, json, r#"{"reference":1,"response":2}"#, r#"{"reference":1,"response":2}"#),
        (
            200,
            json,
            r#"{"id":123456789012345678901234567890,"eur":0.10000,"big":1.5e300}"#,
            r#"{"id":123456789012345678901234567890,"eur":0.10000,"big":1.5e300}"#,
        ),
        (200, jobs, "[1, 2]", "[1, 2]"),
        (200, json, "null", "null"),
        (200, &[], "7", "7"),
        (204, &[], "", "null"),
        (201, json, "", "null"),
        (200, &[TEXT], "thank you", r#"{"content_type":"text/plain; charset=UTF-8","text":"thank you"}"#),
        (
            200,
            &[("content-type", "application/xml")],
            "<id>1</id>",
            r#"{"content_type":"application/xml","text":"<id>1</id>"}"#,
        ),
        (200, &[], "thank you", r#"{"content_type":null,"text":"thank you"}"#),
        // It took the request, whatever it calls JSON.
        (200, &[JSON], r#"{"id":"#, r#"{"content_type":"application/json","text":"{\"id\":"}"#),
        // A charset that is not decoded here, and a type that is not text.
        (
            200,
            &[("content-type", "text/plain; charset=\"latin1\"")],
            "abc",
            r#"{"base64":"YWJj","content_type":"text/plain; charset=\"latin1\""}"#,
        ),
        (200, &[("content-type", "image/png")], "abc", r#"{"base64":"YWJj","content_type":"image/png"}"#),
    ];
    for (status, headers, body, expected) in cases {
        assert_eq!(response_of(status, headers, body.as_bytes()).await, expected, "{body}");
    }
    // Text that the database cannot store, and bytes that are none.
    let nul = r#"{"base64":"YQBi","content_type":"text/plain; charset=UTF-8"}"#;
    assert_eq!(response_of(200, &[TEXT], b"a\0b").await, nul);
    let bytes = r#"{"base64":"//4=","content_type":"text/plain; charset=UTF-8"}"#;
    assert_eq!(response_of(200, &[TEXT], &[0xff, 0xfe]).await, bytes);
}

#[tokio::test]
async fn a_reference_of_the_headers_is_kept_if_it_can_be_one() {
    let of = async |location: &'static str| {
        let answer = move || response(201, &[JSON, ("location", location)], "{}");
        receipt_of("", answer).await.0
    };
    assert_eq!(of("/payments/1").await.unwrap(), "/payments/1");
    assert_eq!(of("").await, None);
    assert_eq!(of("/payments/\u{e9}").await, None);
    assert_eq!(of("x".repeat(1025).leak()).await, None);
}

#[tokio::test]
async fn a_202_promises_a_response_unless_it_is_final() {
    let accepted = || response(202, &[JSON, ("location", "/jobs/1")], r#"{"state":"queued"}"#);
    let reference = Some("/jobs/1".to_owned());
    assert_eq!(receipt_of("", accepted).await, (reference.clone(), None));
    let state = Some(r#"{"state":"queued"}"#.to_owned());
    assert_eq!(receipt_of("--answer final", accepted).await, (reference, state));
    assert_eq!(receipt_of("--answer envelope --answer direct=body", || response(202, &[], "")).await, (None, None));
}

#[tokio::test]
async fn an_answer_beyond_the_limit_ends_the_request_as_executed() {
    let fake = Fake::start(|| response(201, &[JSON], "[1,2,3,4]")).await;
    let (_, transact) = fake.stages("--max-response-bytes 8");
    let message = "the service took the request, but its answer is longer than the 8 bytes of --max-response-bytes";
    let error = RequestError::new("unstorable_response", message, false);
    assert_eq!(transact.send(&request()).await, Sent::Rejected(error.clone()));
    assert_eq!(transact.find_receipt(&request()).await, Err(error));

    let (_, transact) = fake.stages("--max-response-bytes 9");
    let receipt = Receipt { reference: None, response: Some("[1,2,3,4]".parse().unwrap()) };
    assert_eq!(transact.send(&request()).await, Sent::Receipt(receipt));
}

#[tokio::test]
async fn other_flows_answer_in_envelopes() {
    let fake = Fake::start(|| response(200, &[JSON], r#"{"reference":"r-1","response":{"x":1}}"#)).await;
    let url = format!("http://{}", fake.address);
    let receipt = async |kind: &str, flags: &str| {
        let (_, transact) = stages_at(&url, kind, flags);
        let Sent::Receipt(receipt) = transact.send(&testing::request(kind)).await else { panic!("no receipt") };
        (receipt.reference, receipt.response.map(|json| json.get().to_owned()))
    };
    let envelope = (Some("r-1".to_owned()), Some(r#"{"x":1}"#.to_owned()));
    for (kind, flags) in [
        ("input_proof", ""),
        ("public_decrypt", ""),
        // A form for all is none for proofs.
        ("input_proof", "--answer body"),
        ("direct", "--answer envelope"),
    ] {
        assert_eq!(receipt(kind, flags).await, envelope, "{kind} {flags}");
    }
    let whole = r#"{"reference":"r-1","response":{"x":1}}"#.to_owned();
    assert_eq!(receipt("public_decrypt", "--answer body").await, (None, Some(whole)));

    let options = crate::from_flags("--send-url http://127.0.0.1:1 --answer input_proof=body");
    let flows = [("input_proof".to_owned(), Flow::Proof)].into();
    let error = stages(&options, &flows).unwrap_err().to_string();
    assert!(error.contains("a proof is answered by a verdict"), "{error}");
}

#[test]
fn the_forms_are_words() {
    testing::assert_refused::<ForKind<AnswerForm>>(&[
        ("bodies", "\"bodies\" is not a form of answers: it is body, final or envelope"),
        ("direct=", "is not a form"),
    ]);
}
