//! The server, reached with the HTTP stages and with a callback, as in a fleet.

use std::sync::Mutex;

use serde_json::{Value, json};
use tidegate::stage::{Check, Readiness, Sent, Transact};
use uuid::Uuid;

use super::*;
use crate::{
    http_stage::{HttpOptions, HttpReadiness, HttpTransact, stage_for},
    request,
    simulate::{CallbackResponder, Chance, SimulateOptions},
};

fn always() -> Chance {
    Chance::new(1.0).unwrap()
}

struct Running {
    downstream: Arc<Downstream>,
    shutdown: CancellationToken,
    url: String,
    task: tokio::task::JoinHandle<std::io::Result<()>>,
}

impl Running {
    async fn start(options: SimulateOptions, callback: Option<CallbackResponder>) -> Self {
        let responder = callback.map(|callback| Arc::new(callback) as _);
        let options = SimulateOptions {
            remember: true,
            seed: Some(1),
            ..options
        };
        let downstream = Arc::new(Downstream::new(options, responder).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(serve(listener, downstream.clone(), shutdown.clone()));
        Self {
            downstream,
            shutdown,
            url,
            task,
        }
    }

    fn stage(&self, kind: &str) -> (HttpReadiness, HttpTransact) {
        let url = |path: &str| vec![format!("{}{path}", self.url).parse().unwrap()];
        let options = HttpOptions {
            check_urls: url("/check/{kind}"),
            send_urls: url("/send/{kind}"),
            receipt_urls: url("/receipt/{kind}/{id}"),
            first_byte_timeout: Duration::from_millis(300),
            ..HttpOptions::default()
        };
        stage_for(&options, kind)
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

    let server = Running::start(SimulateOptions::default(), Some(callback)).await;
    let (readiness, transact) = server.stage("input_proof");
    let request = request("input_proof");
    assert_eq!(readiness.check(&request).await, Check::Ready);
    let Sent::Receipt(receipt) = transact.send(&request).await else {
        panic!("not taken")
    };
    assert_eq!(transact.send(&request).await, Sent::Receipt(receipt.clone()));
    assert_eq!(transact.find_receipt(&request).await, Ok(Some(receipt.clone())));

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
    let server = Running::start(SimulateOptions::default(), None).await;
    let request = request("direct");
    let sent = server.stage("direct").1.send(&request).await;
    let response = Some(json!({ "simulated": request.id }));
    assert_eq!(
        sent,
        Sent::Receipt(Receipt {
            reference: None,
            response
        })
    );
}

#[tokio::test]
async fn a_dropped_answer_is_found_again() {
    let options = SimulateOptions {
        drop_rate: always(),
        ..SimulateOptions::default()
    };
    let server = Running::start(options, None).await;
    let (_, transact) = server.stage("input_proof");
    let request = request("input_proof");
    assert_eq!(transact.find_receipt(&request).await, Ok(None));
    let sent = transact.send(&request).await;
    assert!(
        matches!(&sent, Sent::Retry { error, may_have_left: true, .. } if error.code == "timeout"),
        "{sent:?}"
    );
    assert!(
        transact
            .find_receipt(&request)
            .await
            .unwrap()
            .unwrap()
            .reference
            .is_some()
    );
}

#[tokio::test]
async fn refusals_arrive_as_what_they_are() {
    let server = Running::start(
        SimulateOptions {
            not_yet_rate: always(),
            not_yet_after: Duration::from_millis(1500),
            reject_rate: always(),
            ..SimulateOptions::default()
        },
        None,
    )
    .await;
    let (readiness, transact) = server.stage("user_decrypt");
    let decrypt = request("user_decrypt");
    let two = Some(Duration::from_secs(2));
    assert_eq!(readiness.check(&decrypt).await, Check::Snooze { after: two });
    assert!(matches!(transact.send(&decrypt).await, Sent::Rejected(error) if error.code == "rejected"));
    let stranger = request("stranger");
    let (readiness, transact) = server.stage("stranger");
    assert!(matches!(readiness.check(&stranger).await, Check::Failed(error) if error.code == "unknown_kind"));
    assert!(matches!(transact.send(&stranger).await, Sent::Rejected(error) if error.message.contains("--kind")));

    let options = SimulateOptions {
        rate: Some(1.0),
        check_failure_rate: always(),
        send_error_rate: always(),
        ..SimulateOptions::default()
    };
    let server = Running::start(options, None).await;
    let (readiness, transact) = server.stage("user_decrypt");
    assert!(matches!(readiness.check(&decrypt).await, Check::Failed(error) if error.code == "not_possible"));
    for _ in 0..3 {
        let sent = transact.send(&request("user_decrypt")).await;
        assert!(matches!(sent, Sent::Retry { error, .. } if error.code == "http_500"));
    }
    let sent = transact.send(&decrypt).await;
    assert!(matches!(sent, Sent::Retry { after: Some(after), may_have_left: false, .. } if after.as_secs() == 1));
    assert_eq!(server.downstream.stats().rate_violations, 1);
}

#[tokio::test]
async fn a_send_needs_its_key() {
    let server = Running::start(SimulateOptions::default(), None).await;
    let call = reqwest::Client::new()
        .post(format!("{}/send/direct", server.url))
        .send();
    let answer = call.await.unwrap();
    assert_eq!(answer.status(), 400);
    assert_eq!(answer.headers()["content-type"], "application/problem+json");
    let problem: Value = answer.json().await.unwrap();
    assert_eq!(problem["code"], "no_idempotency_key");
}

#[tokio::test]
async fn shutting_down_ends_even_the_calls_that_get_no_answer() {
    let options = SimulateOptions {
        drop_rate: always(),
        ..SimulateOptions::default()
    };
    let server = Running::start(options, None).await;
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
