//! Does every number, however large or long, come out of every door as it went in?

use std::{collections::HashMap, time::Duration};

use proptest::{
    collection::vec,
    prelude::{Just, Strategy, prop_oneof},
    strategy::ValueTree,
    test_runner::TestRunner,
};
use serde::Deserialize;
use serde_json::json;
use tidegate::{
    Tidegate,
    request::{JsonText, Request, RequestError},
    stage::{Sent, Stages},
};

use super::Api;
use crate::{
    cli::commands::{out, run},
    support::{TestDatabase, campaign, eventually},
};

/// What a stage is to do with a value.
#[derive(Deserialize)]
struct Order {
    answer: String,
    value: JsonText,
}

/// Numbers that an `f64` changes, that no `f64` holds, or that look like others.
fn numbers() -> impl Strategy<Value = String> {
    prop_oneof![
        "-?[1-9][0-9]{15,40}",
        "-?(0|[1-9][0-9]{0,20})\\.[0-9]{1,40}",
        "-?[1-9]\\.[0-9]{0,3}[1-9]e[1-9][0-9]",
        "[1-9]E-[1-9][0-9]",
        Just("-0".to_owned()),
        Just("1.10".to_owned()),
        Just("9007199254740993".to_owned()),
        Just("1.5e308".to_owned()),
        Just("2e308".to_owned()),
        Just("18446744073709551616".to_owned()),
    ]
}

/// JSON with numbers, at any depth.
fn values() -> impl Strategy<Value = String> {
    numbers().prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(|all| format!("[{}]", all.join(", "))),
            vec(inner, 0..4).prop_map(|all| {
                let members = all.iter().enumerate().map(|(place, value)| format!("\"m{place}\": {value}"));
                format!("{{{}}}", members.collect::<Vec<_>>().join(","))
            }),
        ]
    })
}

/// The members of an answer, as text.
type Members = HashMap<String, JsonText>;

fn members(text: &str) -> Members {
    serde_json::from_str(text).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_number_leaves_by_every_door_as_it_came() {
    let database = TestDatabase::unlimited().await;
    let api = Api::of(&database).await;
    let tidegate = Tidegate::from_pool(database.pool.clone());
    let stages = Stages::new().send("direct", |request: Request<Order>| async move {
        let Order { answer, value } = request.payload;
        match &*answer {
            "receipt" => Sent::receipt(request.id.to_string()),
            "refusal" => Sent::Rejected(RequestError::new("no", "no", false).with_details(value)),
            _ => Sent::response(value),
        }
    });
    let worker = tidegate.worker(stages).start().await.unwrap();
    let text_of = async |path: &str| api.client.get(api.url(path)).send().await.unwrap().text().await.unwrap();

    let (values, mut runner) = (values(), TestRunner::deterministic());
    for _ in 0..campaign(12, 100) {
        let value = values.new_tree(&mut runner).unwrap().current();
        // As the database writes it.
        let stored = database.text(&format!("select ('{value}'::jsonb)::text")).await.unwrap();
        let stored_of =
            async |json: &JsonText| database.text(&format!("select ('{json}'::jsonb)::text")).await.unwrap();
        let orders = ["response", "refusal", "receipt"];
        let bodies = orders.map(|order| format!(r#"{{"answer": "{order}", "value": {value}}}"#));
        let batch = api.post_text("/v1/direct/batch", format!("[{}]", bodies.join(","))).await;
        assert_eq!(batch.status, 202, "{batch:?}");
        let ids = [0, 1, 2].map(|place| batch.body["job_ids"][place].as_str().unwrap().to_owned());
        eventually("the receipt is there", || async {
            let taken = format!(
                "select count(*) from tidegate.request where id = '{}' and req_status = 'receipt_received'",
                ids[2]
            );
            database.number(&taken).await == 1
        })
        .await;
        let response = format!(r#"{{"reference": "{}", "response": {value}}}"#, ids[2]);
        assert_eq!(api.post_text("/v1/responses", response).await.body["outcome"], "completed");
        for id in &ids {
            tidegate.wait(id.parse().unwrap(), Duration::from_secs(60)).await.unwrap();
        }

        for (place, id) in ids.iter().enumerate() {
            let poll = members(&text_of(&format!("/v1/direct/{id}")).await);
            let events = text_of(&format!("/v1/direct/{id}/events")).await;
            let event = members(events.rsplit_once("data: ").unwrap().1.trim());
            let shown = run(&database.url, &["--json", "get", id]).await;
            let shown = members(&out(&shown));
            for answer in [poll, event, shown] {
                let found = match place {
                    1 => members(answer["error"].get())["details"].clone(),
                    _ => answer["result"].clone(),
                };
                assert_eq!(stored_of(&found).await, stored, "{} of {value}", orders[place]);
            }
        }
        // Too late, and kept with the request that it is for.
        let late = format!(r#"{{"job_id": "{}", "response": {value}}}"#, ids[0]);
        assert_eq!(api.post_text("/v1/responses", late).await.body["outcome"], "late");
    }
    worker.stop().await.unwrap();
    assert_eq!(database.violations().await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_that_no_answer_could_carry_ends_its_request_as_executed_and_no_other() {
    let database = TestDatabase::unlimited().await;
    let api = Api::of(&database).await;
    let tidegate = Tidegate::from_pool(database.pool.clone());
    let stages = Stages::new().send("direct", |request: Request<String>| async move {
        let absurd = |text: &str| text.parse::<JsonText>().unwrap();
        match &*request.payload {
            "unfolds" => Sent::response(absurd("[1e131071]")),
            "overflows" => Sent::response(absurd("1e999999")),
            "refused" => Sent::Rejected(RequestError::new("no", "no", false).with_details(absurd("1e999999"))),
            _ => Sent::response("fine"),
        }
    });
    let orders = ["unfolds", "fine", "overflows", "refused", "fine"];
    let batch = api.post("/v1/direct/batch", &json!(orders)).await;
    let worker = tidegate.worker(stages).start().await.unwrap();

    for (place, order) in orders.into_iter().enumerate() {
        let id = batch.body["job_ids"][place].as_str().unwrap();
        tidegate.wait(id.parse().unwrap(), Duration::from_secs(60)).await.unwrap();
        let poll = api.get(&format!("/v1/direct/{id}")).await.body;
        let (code, executed) = match order {
            "fine" => (json!(null), "yes"),
            "refused" => (json!("no"), "no"),
            _ => (json!("unstorable_response"), "yes"),
        };
        assert_eq!((&poll["error"]["code"], &poll["executed"]), (&code, &json!(executed)), "{order}: {poll}");
    }
    worker.stop().await.unwrap();
    assert_eq!(database.number("select sum(tx_attempt) from tidegate.request").await, 5);
}
