//! Do all nodes of one database say the same of a request, whichever is asked, and whenever it was started?

use serde_json::{Value, json};
use tidegate::internals::{database, store::Store};
use tidegate_node::HttpOptions;

use super::Api;
use crate::support::{TestDatabase, patient};

/// Three nodes, each with connections of its own.
async fn three_nodes(database: &TestDatabase) -> Vec<Api> {
    let mut nodes = Vec::new();
    for _ in 0..3 {
        let pool = database::connect(&database.url, &patient()).await.unwrap();
        nodes.push(Api::start(Store::new(pool), &HttpOptions::default()).await);
    }
    nodes
}

/// What a node says of these requests, except for how long they have been where they are.
async fn said(node: &Api, paths: &[String]) -> Vec<Value> {
    let mut answers = Vec::new();
    for path in paths {
        let told = node.get(path).await;
        let mut body = told.body;
        body.as_object_mut().unwrap().remove("elapsed_seconds");
        body["retry_after"] = json!(told.headers["retry-after"].to_str().unwrap());
        answers.push(body);
    }
    answers
}

#[tokio::test(flavor = "multi_thread")]
async fn three_nodes_tell_the_same_position_and_eta_before_and_after_a_restart() {
    let database = TestDatabase::new().await;
    // The ETA of a request whose nominal time is over changes with the time.
    database.stop_clock().await;
    let mut nodes = three_nodes(&database).await;
    // Spread over the nodes, over both queues, some under check, some in flight.
    let mut paths = Vec::new();
    for (place, kind) in ["direct", "public-decrypt", "input-proof"].into_iter().cycle().take(60).enumerate() {
        paths.push(nodes[place % 3].submit(kind).await);
    }
    database
        .execute(
            "select tidegate.claim_readiness('readiness', 'r', 3, '1 hour');
             select tidegate.claim_tx('tx', 't', 1, '1 hour')",
        )
        .await;

    let first = said(&nodes[0], &paths).await;
    let positions: Vec<_> = first.iter().map(|told| told["position"].as_i64()).collect();
    assert!(positions.contains(&Some(0)) && positions.contains(&Some(38)), "{positions:?}");
    for node in &nodes[1..] {
        assert_eq!(said(node, &paths).await, first);
    }

    for node in nodes.drain(..) {
        node.shutdown.cancel();
        node.served.await.unwrap().unwrap();
    }
    for node in &three_nodes(&database).await {
        assert_eq!(said(node, &paths).await, first);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_agree_on_observed_etas_too() {
    let database = TestDatabase::new().await;
    database
        .execute(
            "update tidegate.setting set jitter = 0;
             update tidegate.kind set eta = 'observed';
             insert into tidegate.finish_sample (
               kind, requests, answer_ms, predicted, error_ms, error_abs_ms, error_bins, p90_stated, p90_held
             )
             select 'direct', 1, array[2000 + 100 * i], 0, 0, 0, array_fill(0, array[8]), 0, 0
             from generate_series(0, 30) as i;
             select tidegate.take_samples()",
        )
        .await;
    // What is observed holds for ten seconds, and what nodes say changes with the time.
    database.stop_clock().await;
    let nodes = three_nodes(&database).await;
    let mut paths = Vec::new();
    for place in 0..30 {
        paths.push(nodes[place % 3].submit("direct").await);
    }

    let first = said(&nodes[0], &paths).await;

    // p50 to a tenth of a second from the head of the queue on.
    assert_eq!(first[29]["position"], 29);
    assert!((6.3..=6.5).contains(&first[29]["eta_p50"].as_f64().unwrap()), "{first:?}");
    for node in &nodes[1..] {
        assert_eq!(said(node, &paths).await, first);
    }
}
