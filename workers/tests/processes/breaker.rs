//! One breaker for three worker processes, before a service that fails and recovers.

use std::{
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use axum::{Json, Router, extract::State, http::StatusCode, routing::post};
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    process::{Child, Command},
};

use super::{
    all_completed,
    support::{TestDatabase, eventually},
};

#[derive(Default)]
struct Service {
    broken: AtomicBool,
    sends: AtomicU64,
}

async fn send(State(service): State<Arc<Service>>) -> (StatusCode, Json<Value>) {
    service.sends.fetch_add(1, Ordering::SeqCst);
    if service.broken.load(Ordering::SeqCst) {
        return (StatusCode::INTERNAL_SERVER_ERROR, Json(json!({})));
    }
    (StatusCode::OK, Json(json!({ "response": "done" })))
}

/// A worker that sends to the service.
fn http(database: &TestDatabase, name: &str, url: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_tidegate-worker"))
        .args(["http", "--name", name, "--queue", "tx", "--send-url", url])
        .env("DATABASE_URL", &database.url)
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
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
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/send", listener.local_addr().unwrap());
    let router = Router::new()
        .route("/send", post(send))
        .with_state(Arc::clone(&service));
    tokio::spawn(async move { axum::serve(listener, router).await });

    for _ in 0..60 {
        database.submit("direct").await;
    }
    let _workers = ["one", "two", "three"].map(|name| http(&database, name, &url));
    eventually(
        "three workers are there, and the breaker has tried four times to close",
        || async {
            database
                .number("select count(*) from tidegate.worker")
                .await
                == 3
                && database
                    .number("select count(*) from tidegate.breaker_event where state = 'half_open'")
                    .await
                    >= 4
        },
    )
    .await;

    service.broken.store(false, Ordering::SeqCst);
    all_completed(&database).await;
    assert_eq!(
        database
            .text("select state from tidegate.breaker")
            .await
            .as_deref(),
        Some("closed")
    );

    // Whoever claims while the trip commits does not see it yet. From the first try on nothing was claimed but probes, by all
    // three together.
    let probes = database
        .number(
            "with tried as (select min(at) as at from tidegate.breaker_event where state = 'half_open'),
               closed as (select max(at) as at from tidegate.breaker_event where state = 'closed')
             select count(*) from tidegate.request_event as e, tried as t, closed as c
             where e.cause = 'claimed' and e.at > t.at and e.at < c.at",
        )
        .await;
    let half_open = database
        .number("select count(*) from tidegate.breaker_event where state = 'half_open'")
        .await;
    assert!(
        probes > 0 && probes <= 2 * half_open,
        "{probes} calls in {half_open} times half open"
    );
    let claimed = database
        .number("select count(*) from tidegate.request_event where cause = 'claimed'")
        .await;
    assert_eq!(
        service.sends.load(Ordering::SeqCst),
        u64::try_from(claimed).unwrap()
    );
}
