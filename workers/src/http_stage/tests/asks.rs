//! What is asked for the response of a request, and what the answers mean.

use tidegate::stage::{Asked, Receipt};

use super::*;

/// The receipt of a send, and what an ask for its response says; the same answer to both.
async fn asked(
    flags: &str,
    status: u16,
    headers: &'static [(&'static str, &'static str)],
    body: &'static str,
) -> (Receipt, Asked) {
    let fake = Fake::start(move || response(status, headers, body)).await;
    let flags = flags.replace("HERE", &format!("http://{}", fake.address));
    let (_, transact) = fake.stages(&flags);
    let Sent::Receipt(receipt) = transact.send(&request()).await else { panic!("no receipt") };
    let found = transact.find_receipt(&request()).await;
    assert_eq!(found, Ok(Found::Receipt(receipt.clone())));
    assert!(transact.asks());
    let reference = receipt.reference.as_deref();
    let asked = transact.ask(&request(), reference).await;
    (receipt, asked)
}

const LATER: Asked = Asked::Later { after: None };

fn json(text: &str) -> Asked {
    Asked::Response(text.parse().unwrap())
}

#[tokio::test]
async fn without_a_pointer_any_2xx_but_a_202_is_the_response() {
    let flags = "--response-url HERE/jobs/{id}";
    let (receipt, said) = asked(flags, 200, &[JSON], r#"{"eur":0.10}"#).await;
    assert_eq!(receipt, Receipt::default(), "a send has none then");
    assert_eq!(said, json(r#"{"eur":0.10}"#));
    let wait: &[_] = &[JSON, ("retry-after", "7")];
    let (_, said) = asked(flags, 202, wait, "{}").await;
    let after = Some(Duration::from_secs(7));
    assert_eq!(said, Asked::Later { after });
}

#[tokio::test]
async fn a_pointer_says_when_the_response_is_there() {
    let flags = "--response-url HERE/jobs/{reference} --reference-at /id --response-at /result/0";
    let (receipt, said) = asked(flags, 202, &[JSON], r#"{"id":17,"result":[0.10]}"#).await;
    assert_eq!(receipt.reference.as_deref(), Some("17"));
    assert_eq!(receipt.response.unwrap().get(), "0.10", "the send has it already");
    assert_eq!(said, json("0.10"));
    for body in [r#"{"id":17,"result":[null]}"#, r#"{"id":17}"#] {
        let (receipt, said) = asked(flags, 200, &[JSON], body).await;
        assert_eq!((receipt.response, said), (None, LATER), "{body}");
    }

    let flags = "--response-url HERE/jobs/{id} --response-at /status=done,paid --failed-at /status=failed";
    let (_, said) = asked(flags, 200, &[JSON], r#"{"status":"paid"}"#).await;
    assert_eq!(said, json(r#"{"status":"paid"}"#));
    let (_, said) = asked(flags, 200, &[JSON], r#"{"status":"running"}"#).await;
    assert_eq!(said, LATER);
    let (_, said) = asked(flags, 200, &[JSON], r#"{"status":"failed"}"#).await;
    let error = RequestError::new("rejected", "the service says: failed", false);
    assert_eq!(said, Asked::Failed(error));
    // No JSON is no word, and no end.
    let (_, said) = asked(flags, 200, &[("content-type", "text/plain")], "paid").await;
    assert_eq!(said, LATER);
}

#[tokio::test]
async fn a_location_is_asked_only_at_the_service_itself() {
    let fake = Fake::start(|| response(200, &[JSON], "7")).await;
    let own = format!("http://{}/jobs/2", fake.address);
    let (_, transact) = fake.stages("--response-url location");
    for (location, calls) in
        [("/jobs/1", Some("/jobs/1")), (&own, Some("/jobs/2")), ("http://127.0.0.1:1/jobs", None), ("https://[", None)]
    {
        fake.seen.lock().unwrap().clear();
        let said = transact.ask(&request(), Some(location)).await;
        let seen: Vec<_> = fake.seen.lock().unwrap().iter().map(|call| call.1.clone()).collect();
        assert_eq!(seen, calls.into_iter().collect::<Vec<_>>(), "{location}");
        assert_eq!(said, if calls.is_some() { json("7") } else { LATER });
    }
    assert_eq!(transact.ask(&request(), None).await, LATER);
    assert_eq!(fake.seen.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn an_answer_that_is_no_2xx_is_asked_again() {
    let fake = Fake::start(|| response(429, &[("retry-after", "3")], "")).await;
    let (_, transact) = fake.stages("--response-url location");
    let after = Some(Duration::from_secs(3));
    assert_eq!(transact.ask(&request(), Some("/a%2Fb")).await, Asked::Later { after });
    let (_, away) = stages_at("http://127.0.0.1:1", "direct", "--response-url location");
    assert_eq!(away.ask(&request(), Some("/a")).await, LATER);
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let error = |flags: &str| {
        let options: HttpOptions = crate::from_flags(&format!("--send-url http://a/{{kind}} {flags}"));
        let flows = [("direct".to_owned(), Flow::Direct), ("x".to_owned(), Flow::Decrypt)].into();
        stages(&options, &flows).unwrap_err().to_string()
    };
    for (flags, part) in [
        ("--response-url http://a/jobs", "put {reference} or {id} into it"),
        ("--response-at /a", "give that too"),
        ("--failed-at direct=/a=b --response-url x=http://a/{id}", "give that too"),
        ("--response-url x=http://a/{id}", "--response-url x=… is for direct kinds"),
        ("--response-url location --response-url location", "twice for all other kinds"),
        ("--response-url location --answer direct=final", "exclude each other"),
    ] {
        let said = error(flags);
        assert!(said.contains(part), "{flags}: {said}");
    }
    testing::assert_refused::<ForKind<ResponseUrl>>(&[
        ("x=http://a/{job}", "there are {kind}, {id} and {reference}"),
        ("Location", "not a URL"),
    ]);
}
