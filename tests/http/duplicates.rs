//! Many who submit the same at once, to several nodes: one request, and next to nothing written.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use tidegate::internals::{
    database::{self, PoolSettings},
    store::Store,
};
use tidegate_node::HttpOptions;
use tokio::sync::Barrier;

use super::Api;
use crate::support::{TestDatabase, campaign, eventually, patient, sql::value};

/// Over so many connections, to so many nodes.
const CONNECTIONS: usize = 64;
const NODES: usize = 4;

/// A kind of each sort, on a queue without limits.
async fn stage() -> TestDatabase {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "insert into tidegate.kind (name, flow, tx_queue, processing_ms, tx_confirmation_ms, key_mode, key_paths, key_bucket)
             values ('natural', 'direct', 'tx', 1, 1, 'natural', '{order.id}', null),
               ('proxy', 'direct', 'tx', 1, 1, 'proxy', null, null),
               ('bucketed', 'direct', 'tx', 1, 1, 'proxy', null, '100 milliseconds')",
        )
        .await;
    database
}

/// What one answer to a duplicate says.
struct Told {
    status: StatusCode,
    replayed: bool,
    job_id: String,
}

/// Submits the same `count` times, over `CONNECTIONS` connections that begin together; every answer.
async fn storm(apis: &[Api], kind: &str, key: Option<&str>, count: usize) -> Vec<Told> {
    let barrier = Arc::new(Barrier::new(CONNECTIONS));
    let mut tasks = Vec::new();
    for connection in 0..CONNECTIONS {
        let url = apis[connection % apis.len()].url(&format!("/v1/{kind}"));
        let (barrier, key) = (Arc::clone(&barrier), key.map(str::to_owned));
        let share = count / CONNECTIONS + usize::from(connection < count % CONNECTIONS);
        tasks.push(tokio::spawn(async move {
            // One client, one connection: it submits one by one.
            let client = Client::builder().no_proxy().build().unwrap();
            let mut told = Vec::new();
            barrier.wait().await;
            for _ in 0..share {
                let mut posting = client
                    .post(&url)
                    .header("content-type", "application/json")
                    .body(r#"{"order": {"id": 7}, "amount": 1.50}"#);
                if let Some(key) = &key {
                    posting = posting.header("idempotency-key", key);
                }
                let answer = posting.send().await.unwrap();
                let replayed = answer.headers().get("idempotency-replayed");
                told.push(Told {
                    status: answer.status(),
                    replayed: replayed.is_some_and(|replayed| replayed == "true"),
                    job_id: {
                        let body: Value = answer.json().await.unwrap();
                        body["job_id"].as_str().unwrap_or_default().to_owned()
                    },
                });
            }
            told
        }));
    }
    let mut told = Vec::new();
    for task in tasks {
        told.extend(task.await.unwrap());
    }
    told
}

/// All are one request, and all but one are marked as replays.
fn assert_one_request(told: &[Told], count: usize) {
    assert_eq!(told.len(), count);
    for answer in told {
        assert_eq!(answer.status, 202);
        assert_eq!(answer.job_id, told[0].job_id);
    }
    let first = told.iter().filter(|answer| !answer.replayed).count();
    assert_eq!(first, 1, "answers without a mark");
}

#[tokio::test(flavor = "multi_thread")]
async fn identical_posts_make_one_request_and_leave_next_to_nothing() {
    let database = stage().await;
    let (mut pools, mut apis) = (Vec::new(), Vec::new());
    for _ in 0..NODES {
        let settings = PoolSettings { connections_max: 8, ..patient() };
        let pool = database::connect(&database.url, &settings).await.unwrap();
        apis.push(Api::start(Store::new(pool.clone()), &HttpOptions::default()).await);
        pools.push(pool);
    }

    let submissions = campaign(250, 10_000);
    let told = storm(&apis, "direct", Some("k"), submissions).await;
    assert_one_request(&told, submissions);
    let others = apis[0].post_with_key("/v1/direct", "k", &json!({"order": {"id": 7}})).await;
    others.assert_problem(422, "idempotency_key_reused");

    // Whatever node has answered them, the database has counted them.
    database.execute("select tidegate.fold_counts()").await;
    assert_eq!(
        database
            .value(
                "select row(kind, sum(submitted), sum(replayed))::text from tidegate.submission_sample group by kind"
            )
            .await,
        format!("(direct,{submissions},{})", submissions - 1)
    );

    // A session tells what it has written when it ends, at the latest.
    drop(apis);
    for pool in pools.iter().chain([&database.pool]) {
        pool.close().await;
    }
    let mut session = database.session().await;
    let end_others = "select count(pg_terminate_backend(pid)) from pg_stat_activity
                      where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'";
    let deadline = Instant::now() + Duration::from_secs(30);
    while value(&mut session, end_others).await != "0" {
        assert!(Instant::now() < deadline, "sessions that do not end");
        tokio::task::yield_now().await;
    }
    let written =
        "select string_agg(format('%s +%s ~%s -%s dead %s', relname, n_tup_ins, n_tup_upd, n_tup_del, n_dead_tup), ', '
                     order by relname)
                   from pg_stat_user_tables where relname in ('request', 'dedup', 'q_tx')";
    let told = value(&mut session, written).await;
    println!("{told}");
    // Of the first arrivals of each node one wins. Another may have inserted its row already, and takes it back.
    let allowed: Vec<_> = (0..NODES)
        .map(|losers| {
            format!("dedup +{} ~0 -{losers} dead {losers}, q_tx +1 ~0 -0 dead 0, request +1 ~0 -0 dead 0", losers + 1)
        })
        .collect();
    assert!(allowed.contains(&told), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_that_make_their_keys_need_no_header() {
    let database = stage().await;
    let apis = [Api::of(&database).await, Api::of(&database).await];
    for (requests, kind) in ["natural", "proxy", "bucketed"].into_iter().enumerate() {
        let submissions = campaign(192, 640);
        let told = storm(&apis, kind, None, submissions).await;
        assert_one_request(&told, submissions);
        assert_eq!(database.number("select count(*) from tidegate.request").await, requests as i64 + 1);
    }
    // Same key, other payload; no value, no key.
    let other = json!({"order": {"id": 7}, "amount": 2});
    let refused = apis[0].post("/v1/natural", &other).await;
    refused.assert_problem(422, "idempotency_key_reused");
    let refused = apis[0].post("/v1/natural", &json!({"amount": 2})).await;
    refused.assert_problem(400, "invalid_request");
    assert!(refused.detail().contains("\"order.id\""), "{refused:?}");
    let keyed = apis[0].post_with_key("/v1/natural", "mine", &other).await;
    assert_eq!(keyed.status, 202);

    let batch = json!([{"order": {"id": 8}}, {"order": {"id": 9}}, {"order": {"id": 8}}]);
    let first = apis[0].post("/v1/natural/batch", &batch).await;
    let again = apis[1].post("/v1/natural/batch", &batch).await;
    assert_eq!(first.body["job_ids"], again.body["job_ids"]);
    assert_eq!(first.body["job_ids"][0], first.body["job_ids"][2]);
    assert_eq!(first.header("idempotency-replayed"), "");
    assert_eq!(again.header("idempotency-replayed"), "true");
    let changed = json!([{"order": {"id": 8}, "amount": 2}]);
    let refused = apis[0].post("/v1/natural/batch", &changed).await;
    refused.assert_problem(422, "idempotency_key_reused");
    assert!(!refused.detail().contains("Idempotency-Key"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_requires_keys_refuses_only_the_submissions_without_one() {
    let database = stage().await;
    database.execute("update tidegate.kind set key_mode = 'required' where name = 'direct'").await;
    let api = Api::of(&database).await;
    for (path, body) in [("/v1/direct", json!({"a": 1})), ("/v1/direct/batch", json!([{"a": 1}, {"a": 1}]))] {
        let refused = api.post(path, &body).await;
        refused.assert_problem(400, "idempotency_key_missing");
        assert!(refused.detail().contains("\"direct\" requires an idempotency key"), "{refused:?}");
        assert_eq!(refused.body["retryable"], false);
        for replayed in ["", "true"] {
            let taken = api.post_with_key(path, "k", &body).await;
            assert_eq!(taken.status, 202, "{taken:?}");
            assert_eq!(taken.header("idempotency-replayed"), replayed);
        }
    }

    // Those that share a statement share no refusal.
    let url = api.url("/v1/direct");
    let mut calls = tokio::task::JoinSet::new();
    for place in 0..40 {
        let mut posting = api.client.post(&url).json(&json!({ "place": place }));
        if place % 2 == 0 {
            posting = posting.header("idempotency-key", place.to_string());
        }
        calls.spawn(async move { (place, posting.send().await.unwrap().status()) });
    }
    for (place, status) in calls.join_all().await {
        assert_eq!(status, if place % 2 == 0 { 202 } else { 400 }, "{place}");
    }
    assert_eq!(database.number("select count(*) from tidegate.request").await, 23);
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_closed_gate_a_duplicate_without_a_header_is_answered() {
    let database = stage().await;
    let api = Api::of(&database).await;
    let first = api.post("/v1/proxy", &json!({"a": 1})).await;
    database.execute("select tidegate.gate_force('tx', 'too_many_requests')").await;
    // The node refuses from memory by now what has no key.
    eventually("the node knows", || async {
        let refused = "tidegate_gate_refusals_total{kind=\"direct\",by=\"copy\"}";
        api.post("/v1/direct", &json!({})).await;
        super::metrics::Figures::of(&api).await.get(refused).is_some_and(|count| count > 0.0)
    })
    .await;

    let again = api.post("/v1/proxy", &json!({"a": 1.0})).await;
    assert_eq!(again.status, 202, "{again:?}");
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(again.body["job_id"], first.body["job_id"]);
    let other = api.post("/v1/proxy", &json!({"a": 2})).await;
    other.assert_problem(429, "gate_closed");
}
