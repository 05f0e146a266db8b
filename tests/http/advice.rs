//! What `/metrics` tells about callers: what they make of what they are told, and how good that was.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use sqlx::postgres::PgPoolOptions;
use tidegate::internals::{
    api_key::{ApiKey, Scope},
    store::Store,
};
use tidegate_node::{HttpOptions, Keys, Node, NodeOptions};

use super::{
    Api,
    access::key,
    answer,
    metrics::Figures,
    waiting::{Listening, awaiting},
};
use crate::support::{TestDatabase, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn the_polls_of_a_request_are_told_once_when_its_end_is() {
    let database = TestDatabase::unlimited().await;
    let api = Api::of(&database).await;
    for polls in [0, 2] {
        let job = api.submit("direct").await;
        for _ in 0..polls {
            assert_eq!(api.get(&job).await.status, 202);
        }
        api.delete(&job).await;
        for _ in 0..3 {
            assert_eq!(api.get(&job).await.status, 200);
        }
    }

    let figures = Figures::of(&api).await;

    let of = |sample: &str| figures.get(&format!("tidegate_{sample}"));
    assert_eq!(of("polls_per_request_count{kind=\"direct\"}"), Some(2.0), "one for each request");
    assert_eq!(of("polls_per_request_sum{kind=\"direct\"}"), Some(4.0));
    assert_eq!(of("polls_per_request_bucket{kind=\"direct\",le=\"1\"}"), Some(1.0));
    assert_eq!(of("poll_lateness_seconds_count{kind=\"direct\"}"), Some(2.0));
    let late = of("poll_lateness_seconds_sum{kind=\"direct\"}").unwrap();
    assert!((0.0..60.0).contains(&late), "{late}");
}

#[tokio::test(flavor = "multi_thread")]
async fn eta_errors_are_cumulative_buckets_of_what_the_database_has_counted() {
    let database = TestDatabase::unlimited().await;
    let api = Api::of(&database).await;
    // The ETA of each is 3 s; they end 2 s early, half a second late, 10 s late, 40 s late.
    for (seconds, p90_ms) in [(1.0, 2000), (3.5, 3000), (13.0, 20_000), (43.0, 3000)] {
        let job = api.submit("direct").await;
        let id = job.rsplit('/').next().unwrap();
        database
            .execute(&format!(
                "update tidegate.request
                 set eta_p90_ms = {p90_ms}, submitted_at = clock_timestamp() - interval '{seconds} s'
                 where id = '{id}'"
            ))
            .await;
        database.answer_all().await;
    }

    let of = |kind: &str, sample: &str| {
        let labels = format!("{{kind=\"{kind}\",");
        sample.replace('{', &labels).replace(",}", "}")
    };
    eventually("they are counted", || async {
        let sample = of("direct", "tidegate_eta_error_seconds_count{}");
        Figures::of(&api).await.get(&sample) == Some(4.0)
    })
    .await;
    let figures = Figures::of(&api).await;
    let error = |sample: &str| figures.get(&of("direct", &format!("tidegate_eta_{sample}")));
    for (bound, count) in
        [("-30", 0.0), ("-5", 0.0), ("-1", 1.0), ("0", 1.0), ("1", 2.0), ("5", 2.0), ("30", 3.0), ("+Inf", 4.0)]
    {
        let sample = format!("error_seconds_bucket{{le=\"{bound}\"}}");
        assert_eq!(error(&sample), Some(count), "{bound}");
    }
    let sum = error("error_seconds_sum{}").unwrap();
    assert!((48.5..50.0).contains(&sum), "{sum}");
    assert_eq!(error("p90_stated_total{}"), Some(4.0));
    assert_eq!(error("p90_held_total{}"), Some(2.0));
    // A kind without any is there from the start, so that rates are right.
    for sample in ["error_seconds_count{}", "p90_stated_total{}"] {
        let sample = of("input_proof", &format!("tidegate_eta_{sample}"));
        assert_eq!(figures.get(&sample), Some(0.0), "{sample}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_callers_are_counted_while_they_wait() {
    let database = TestDatabase::unlimited().await;
    let options = HttpOptions { waiters_max: 7, ..HttpOptions::default() };
    let node = Listening::start(&database, &options).await;
    let job = awaiting(&database, &node.api).await;
    let asking = node.api.client.get(node.api.url(&job));
    let held = tokio::spawn(answer(asking.header("prefer", "wait=60")));
    let events = node.api.url(&format!("{job}/events"));
    let stream = node.api.client.get(&events).send().await.unwrap();
    node.until_waiting(2).await;

    let figures = Figures::of(&node.api).await;

    for (sample, count) in [("callers{how=\"held\"}", 1.0), ("callers{how=\"stream\"}", 1.0), ("callers_max", 7.0)] {
        let sample = format!("tidegate_waiting_{sample}");
        assert_eq!(figures.get(&sample), Some(count), "{sample}");
    }
    drop(stream);
    held.abort();
    eventually("they are gone", || async {
        let figures = Figures::of(&node.api).await;
        ["held", "stream"]
            .iter()
            .all(|how| figures.get(&format!("tidegate_waiting_callers{{how=\"{how}\"}}")) == Some(0.0))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn webhooks_that_are_not_delivered_are_counted() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    database.store.webhook_host_add("hooks.example.com", false).await.unwrap();
    let posting = api.posting("/v1/direct", &json!({}));
    let posting = posting.header("tidegate-callback-url", "https://hooks.example.com/done");
    let taken = answer(posting).await;
    api.delete(taken.header("location")).await;

    eventually("it is counted", || async {
        let figures = Figures::of(&api).await;
        let age = figures.get("tidegate_webhook_oldest_age_seconds");
        let of = |state| figures.get(&format!("tidegate_webhook_deliveries{{state=\"{state}\"}}"));
        (of("waiting"), of("under_way"), of("failed")) == (Some(1.0), Some(0.0), Some(0.0)) && age > Some(0.0)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_database_is_away_figures_are_shown_by_the_keys_that_were_known_last() {
    let database = TestDatabase::new().await;
    let admin = key(&database, "admin", &[Scope::Admin]).await;
    let submitter = key(&database, "submitter", &[Scope::Submit]).await;
    let api = Api::of(&database).await;
    assert_eq!(api.bearing(&admin).get("/metrics").await.status, 200);

    database.cut().await;

    let job = "/v1/direct/01890000-0000-7000-8000-000000000000";
    eventually("what the node knew is too old for calls", || async {
        api.bearing(&admin).get(job).await.status == 503
    })
    .await;
    eventually("what was read is too old to be shown", || async {
        let shown = answer(api.bearing(&admin).ask(Method::GET, "/metrics")).await;
        assert_eq!(shown.status, 200, "{shown:?}");
        let figures = Figures::read(shown.body.as_str().unwrap());
        figures.get("tidegate_database_up") == Some(0.0)
    })
    .await;
    api.get("/metrics").await.assert_problem(401, "unauthenticated");
    api.bearing(&ApiKey::generate().unwrap()).get("/metrics").await.assert_problem(401, "unauthenticated");
    api.bearing(&submitter).get("/metrics").await.assert_problem(403, "insufficient_scope");

    // A node that has to ask for keys, and never knew any, shows nothing.
    let pool = PgPoolOptions::new()
        .acquire_timeout(Duration::from_millis(100))
        .connect_lazy("postgres://absent@127.0.0.1:1/nowhere")
        .unwrap();
    let options = NodeOptions::default().keys(Keys::Required);
    let blind = Api::of_node(&Node::of_store(Store::new(pool), options)).await;
    blind.bearing(&admin).get("/metrics").await.assert_problem(503, "database_unavailable");
}
