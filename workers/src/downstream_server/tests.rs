//! The server, reached with the HTTP stages and with a callback, as in a fleet.

use std::sync::Mutex;

use serde_json::{Value, json};
use tidegate::stage::{Check, Found, Readiness, Sent, Transact};
use uuid::Uuid;

use super::*;
use crate::{
    from_flags,
    http_stage::{HttpReadiness, HttpTransact, stages_at},
    simulate::{CallbackResponder, Responder},
    testing::request,
};

struct Running {
    downstream: Arc<Downstream>,
    shutdown: CancellationToken,
    url: String,
    task: tokio::task::JoinHandle<std::io::Result<()>>,
}

impl Running {
    async fn start(flags: &str, responder: Option<Arc<dyn Responder>>) -> Self {
        let options = from_flags(&format!("--remember --seed 1 {flags}"));
        let downstream = Arc::new(Downstream::new(options, responder).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(serve(listener, downstream.clone(), AnswerForm::Envelope, shutdown.clone()));
        Self { downstream, shutdown, url, task }
    }

    fn stages(&self, kind: &str) -> (HttpReadiness, HttpTransact) {
        stages_at(&self.url, kind, "--first-byte-timeout 300ms --answer envelope")
    }
}

#[tokio::test]
async fn a_request_goes_through_and_its_answer_comes_back() {
    let got: Arc<Mutex<Vec<Value>>> = Arc::default();
    let inbox = got.clone();
    let relay = Router::new().route(
        "/v1/responses",
        post(async move |Json(body): Json<Value>| {
            inbox.lock().unwrap().push(body);
            Json(json!({ "outcome": "early" }))
        }),
    );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let callback_url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async { axum::serve(listener, relay).await });
    let callback = CallbackResponder::new(callback_url.parse().unwrap(), HeaderMap::new()).unwrap();

    let server = Running::start("", Some(Arc::new(callback))).await;
    let (readiness, transact) = server.stages("input_proof");
    let request = request("input_proof");
    assert_eq!(readiness.check(&request).await, Check::Ready);
    let Sent::Receipt(receipt) = transact.send(&request).await else { panic!("not taken") };
    assert_eq!(transact.send(&request).await, Sent::Receipt(receipt.clone()));
    assert_eq!(transact.find_receipt(&request).await, Ok(Found::Receipt(receipt.clone())));

    server.downstream.drain(Duration::from_secs(10)).await;
    let response = json!({ "simulated": request.id });
    let expected = json!({ "reference": receipt.reference, "accept": true, "response": response });
    assert_eq!(*got.lock().unwrap(), [expected]);
    let stats = reqwest::get(format!("{}/stats", server.url)).await.unwrap();
    let stats: Stats = stats.json().await.unwrap();
    assert_eq!(stats, server.downstream.stats());
    assert_eq!((stats.checks, stats.sends, stats.taken, stats.duplicates), (1, 2, 1, 1));
    assert_eq!((stats.responses_delivered, stats.responses_early), (1, 1));
}

#[tokio::test]
async fn a_direct_request_is_answered_by_its_receipt() {
    let server = Running::start("", None).await;
    let request = request("direct");
    let receipt = Receipt { reference: None, response: Some(json!({ "simulated": request.id }).into()) };
    assert_eq!(server.stages("direct").1.send(&request).await, Sent::Receipt(receipt));
}

#[tokio::test]
async fn the_receipt_of_a_send_without_an_answer_is_found() {
    let server = Running::start("--drop-rate 1", None).await;
    let (_, transact) = server.stages("input_proof");
    let request = request("input_proof");
    assert_eq!(transact.find_receipt(&request).await, Ok(Found::Nothing));
    let sent = transact.send(&request).await;
    assert!(matches!(&sent, Sent::Retry { error, may_have_left: true, .. } if error.code == "timeout"), "{sent:?}");
    let found = transact.find_receipt(&request).await;
    assert!(matches!(found, Ok(Found::Receipt(receipt)) if receipt.reference.is_some()));
}

#[tokio::test]
async fn each_refusal_has_its_status_and_code() {
    let server = Running::start("--not-yet-rate 1 --not-yet-after 1500ms --reject-rate 1", None).await;
    let (readiness, transact) = server.stages("user_decrypt");
    let decrypt = request("user_decrypt");
    let after = Some(Duration::from_secs(2));
    assert_eq!(readiness.check(&decrypt).await, Check::Snooze { after });
    assert!(matches!(transact.send(&decrypt).await, Sent::Rejected(error) if error.code == "rejected"));
    let stranger = request("stranger");
    let (readiness, transact) = server.stages("stranger");
    assert!(matches!(readiness.check(&stranger).await, Check::Failed(error) if error.code == "unknown_kind"));
    assert!(matches!(transact.send(&stranger).await, Sent::Rejected(error) if error.message.contains("--kind")));

    let server = Running::start("--rate 1 --check-failure-rate 1 --send-error-rate 1", None).await;
    let (readiness, transact) = server.stages("user_decrypt");
    assert!(matches!(readiness.check(&decrypt).await, Check::Failed(error) if error.code == "not_possible"));
    for _ in 0..3 {
        let sent = transact.send(&request("user_decrypt")).await;
        assert!(matches!(sent, Sent::Retry { error, .. } if error.code == "http_500"));
    }
    let sent = transact.send(&decrypt).await;
    assert!(matches!(sent, Sent::Retry { after: Some(after), may_have_left: false, .. } if after.as_secs() == 1));
    assert_eq!(server.downstream.stats().rate_violations, 1);
}

/// It has stood still for two seconds and serves the sends of that time, paced by twenty a second, at once.
#[tokio::test]
async fn sends_that_were_delayed_on_their_way_are_no_violation_of_the_rate() {
    let server = Running::start("--rate 20", None).await;
    let client = reqwest::Client::new();
    let send = async |began: DateTime<Utc>| {
        let call = client.post(format!("{}/send/direct", server.url));
        let call = call.header("idempotency-key", Uuid::now_v7().to_string());
        let answer = call.header("tidegate-began-at", began.to_rfc3339()).send().await;
        answer.unwrap().status().as_u16()
    };
    let now = Utc::now();
    for number in 0..40 {
        let began = now - Duration::from_millis(50 * (40 - number));
        assert_eq!(send(began).await, 200, "send {number}");
    }
    assert_eq!(server.downstream.stats().rate_violations, 0);
    let most = server.downstream.stats().max_sends_in_a_second;
    assert!(most <= 21, "{most} in a second");

    let together = now - Duration::from_secs(4);
    for number in 0..23 {
        let status = if number < 22 { 200 } else { 429 };
        assert_eq!(send(together).await, status, "{number} of those that began together");
    }
}

#[test]
fn a_call_began_at_the_time_in_its_header_and_otherwise_now() {
    let ago = Duration::from_secs(5);
    let headers = |value: &str| HeaderMap::from_iter([(BEGAN_AT.parse().unwrap(), value.parse().unwrap())]);
    let before = Instant::now();
    let began = began_at(&headers(&(Utc::now() - ago).to_rfc3339()));
    let (least, most) = (before, Instant::now());
    assert!((least..=most).contains(&(began + ago)), "{began:?}");

    let future = headers(&(Utc::now() + ago).to_rfc3339());
    for unknown in [future, headers("yesterday"), HeaderMap::new()] {
        let before = Instant::now();
        assert!(began_at(&unknown) >= before, "{unknown:?}");
    }
}

#[tokio::test]
async fn a_send_without_an_idempotency_key_is_refused() {
    let server = Running::start("", None).await;
    let call = reqwest::Client::new().post(format!("{}/send/direct", server.url)).send();
    let answer = call.await.unwrap();
    assert_eq!(answer.status(), 400);
    assert_eq!(answer.headers()["content-type"], "application/problem+json");
    let problem: Value = answer.json().await.unwrap();
    assert_eq!(problem["code"], "no_idempotency_key");
}

#[tokio::test]
async fn shutting_down_ends_even_the_calls_that_get_no_answer() {
    let server = Running::start("--drop-rate 1", None).await;
    let call = reqwest::Client::new()
        .post(format!("{}/send/direct", server.url))
        .header(IDEMPOTENCY_KEY, Uuid::now_v7().to_string())
        .send();
    let call = tokio::spawn(call);
    while server.downstream.stats().dropped == 0 {
        tokio::task::yield_now().await;
    }
    server.shutdown.cancel();
    assert_eq!(call.await.unwrap().unwrap().status(), 504);
    server.task.await.unwrap().unwrap();
}
