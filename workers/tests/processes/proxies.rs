//! Do payloads and credentials go to the operator's URLs, and through no proxy that only the environment names?

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use axum::{Json, Router, routing::post};
use serde_json::json;

use super::{
    all_completed, command, serve, stop,
    support::{TestDatabase, eventually},
};

/// Answers everything with who it is, and counts.
async fn service(name: &'static str) -> (String, Arc<AtomicU32>) {
    let calls = Arc::new(AtomicU32::new(0));
    let counted = calls.clone();
    let answer = post(async move || {
        counted.fetch_add(1, Ordering::SeqCst);
        Json(json!(name))
    });
    (serve(Router::new().fallback_service(answer)).await, calls)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_uses_the_proxy_of_its_options_and_none_of_the_environment() {
    let (url, direct) = service("direct").await;
    let (proxy, proxied) = service("proxy").await;
    for (option, by) in [(None, "direct"), (Some(&proxy), "proxy")] {
        let database = TestDatabase::unlimited().await;
        let id = database.submit("direct").await;
        let mut worker = command(&["http", "--queue", "tx", "--kind", "direct", "--send-url", &url]);
        worker.env("DATABASE_URL", &database.url);
        for variable in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
            worker.env(variable, &proxy);
        }
        worker.args(option.map(|proxy| ["--proxy", proxy]).into_iter().flatten());
        let worker = worker.spawn().unwrap();

        all_completed(&database).await;

        let response = format!("select response #>> '{{}}' from tidegate.request where id = '{id}'");
        assert_eq!(database.text(&response).await.as_deref(), Some(by));
        stop(worker).await;
    }
    eventually("each was called once", || async {
        [&direct, &proxied].map(|calls| calls.load(Ordering::SeqCst)) == [1, 1]
    })
    .await;
}
