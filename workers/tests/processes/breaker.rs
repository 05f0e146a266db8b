//! One breaker for three worker processes, before a service that fails and recovers.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::post,
};
use serde_json::{Value, json};

use super::{
    all_completed, count, serve, spawn,
    support::{TestDatabase, eventually},
};

#[derive(Default)]
struct Service {
    broken: AtomicBool,
    /// The request and the attempt of each send.
    sends: Mutex<Vec<String>>,
}

async fn send(State(service): State<Arc<Service>>, headers: HeaderMap) -> (StatusCode, Json<Value>) {
    let header = |name| headers[name].to_str().unwrap();
    let send = format!("{} {}", header("idempotency-key"), header("tidegate-attempt"));
    service.sends.lock().unwrap().push(send);
    if service.broken.load(Ordering::SeqCst) {
        return (StatusCode::INTERNAL_SERVER_ERROR, Json(json!({})));
    }
    (StatusCode::OK, Json(json!({ "response": "done" })))
}

#[tokio::test(flavor = "multi_thread")]
async fn three_processes_share_one_breaker_that_trips_probes_and_closes() {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "update tidegate.policy
             set attempts = 50, timeout_ms = 1000, base_ms = 1, cap_ms = 1, jitter_ms = 0,
               breaker_error_rate = 0.5, breaker_samples_min = 10, breaker_open_ms = 200, breaker_probes = 2
             where kind = 'direct'",
        )
        .await;
    let service = Arc::new(Service::default());
    service.broken.store(true, Ordering::SeqCst);
    let router = Router::new().route("/send", post(send));
    let url = format!("{}/send", serve(router.with_state(Arc::clone(&service))).await);

    for _ in 0..60 {
        database.submit("direct").await;
    }
    let arguments = |name| ["http", "--name", name, "--queue", "tx", "--kind", "direct", "--send-url", &url];
    let _workers = ["one", "two", "three"].map(|name| spawn(&database, &arguments(name)));
    let half_open = "tidegate.breaker_event where state = 'half_open'";
    eventually("three workers run, and the breaker was half open four times", || async {
        count(&database, "tidegate.worker").await == 3 && count(&database, half_open).await >= 4
    })
    .await;

    service.broken.store(false, Ordering::SeqCst);
    all_completed(&database).await;
    let state = database.text("select state from tidegate.breaker").await;
    assert_eq!(state.unwrap(), "closed");

    // A claim while the trip commits is not refused yet. From the first half-open state until the breaker closes, only
    // probes were claimed, by all three processes together.
    let until_closed = |what: &str| {
        format!(
            "with tried as (select min(at) as at from tidegate.breaker_event where state = 'half_open'),
               closed as (select min(e.at) as at from tidegate.breaker_event as e, tried as t
                          where e.state = 'closed' and e.at > t.at)
             select count(*) from {what} and e.at >= (select at from tried) and e.at < (select at from closed)"
        )
    };
    let probes = database.number(&until_closed("tidegate.request_event as e where e.cause = 'claimed'")).await;
    let times = database.number(&until_closed("tidegate.breaker_event as e where e.state = 'half_open'")).await;
    assert!(probes > 0 && probes <= 2 * times, "{probes} calls in {times} times half open");

    // Each send is an attempt that was claimed, and each attempt that the service answered is one send. A claim whose
    // lease ran out or that was released before its send is no send, and a call that is cut off may not reach the service.
    let attempts = async |which: &str| -> HashSet<String> {
        let attempts = format!(
            "select e.request_id || ' ' || e.attempt
             from (
               select e.*, lead(e.cause) over later as followed_by, lead(e.detail ->> 'code') over later as code
               from tidegate.request_event as e
               window later as (partition by e.request_id order by e.transition_no)
             ) as e
             where e.cause = 'claimed' and {which}"
        );
        database.column(&attempts).await.into_iter().collect()
    };
    let claimed = attempts("true").await;
    let answered = attempts(
        "e.followed_by not in ('claimed', 'released', 'recovered')
           and (e.code is null or tidegate.error_class(e.code) not in ('timeout', 'connect'))",
    )
    .await;
    let sends = service.sends.lock().unwrap();
    let sent: HashSet<_> = sends.iter().cloned().collect();
    assert_eq!(sent.len(), sends.len(), "an attempt was sent twice");
    assert_eq!(sent.difference(&claimed).next(), None, "sent and not claimed");
    assert!(answered.len() >= 60, "{} answers", answered.len());
    assert_eq!(answered.difference(&sent).next(), None, "answered and not sent");
}
