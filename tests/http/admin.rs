//! Does an operator change settings, pause queues and fail requests over HTTP, with history, reasons and refusals?

mod gates;
mod kinds;

use serde_json::{Value, json};

use super::{Answer, Api, answer};
use crate::support::TestDatabase;

async fn act(api: &Api, path: &str) -> Answer {
    answer(api.client.post(api.url(path))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn all_settings_are_listed_with_units_and_defaults() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;

    let all = api.get("/v1/admin/config").await;
    let settings = all.body["settings"].as_array().unwrap();
    let rate = settings.iter().find(|setting| setting["name"] == "tx.per_seconds").unwrap();
    assert_eq!(
        rate,
        &json!({
            "name": "tx.per_seconds", "value": 10, "unit": "sends per second", "type": "number", "subject": "queue tx",
            "is_default": false, "default": null, "comment": rate["comment"]
        })
    );

    let queue = api.get("/v1/admin/config/tx").await;
    assert!(queue.body["settings"].as_array().unwrap().len() >= 6);
    for path in ["nope", "tx.speed", "tx%20", "💥"] {
        api.get(&format!("/v1/admin/config/{path}")).await.assert_problem(404, "unknown_setting");
    }
    for path in ["%00", "%ff"] {
        api.get(&format!("/v1/admin/config/{path}")).await.assert_problem(404, "unknown_setting");
        api.get(&format!("/v1/admin/gates/{path}")).await.assert_problem(404, "unknown_queue");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_patch_changes_all_or_nothing() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;

    let changed =
        api.patch("/v1/admin/config", &json!({"min_seconds": 400, "max_seconds": 500, "tx.paused": true})).await;
    assert_eq!(
        changed.body["changed"],
        json!([
            {"name": "min_seconds", "subject": "setting", "old": 1, "new": 400},
            {"name": "max_seconds", "subject": "setting", "old": 300, "new": 500},
            {"name": "tx.paused", "subject": "queue tx", "old": false, "new": true},
        ])
    );

    for (body, status, code) in [
        (json!({"min_seconds": 5, "tx.burst": 0}), 400, "invalid_request"),
        (json!({"min_seconds": 5, "tx.speed": 1}), 404, "unknown_setting"),
        (json!({"min_seconds": {"to": 5}}), 400, "invalid_request"),
        (json!({"min_seconds": [5]}), 400, "invalid_request"),
        (json!({"min_seconds": true}), 400, "invalid_request"),
        (json!({"min_seconds": ""}), 400, "invalid_request"),
        (json!({"min_seconds": "\u{0}"}), 422, "unstorable"),
        (json!({"\u{0}": 5}), 422, "unstorable"),
        (json!({"": 5}), 404, "unknown_setting"),
        (json!([]), 400, "invalid_body"),
        (json!("min_seconds"), 400, "invalid_body"),
        (json!(null), 400, "invalid_body"),
    ] {
        let refused = api.patch("/v1/admin/config", &body).await;
        refused.assert_problem(status, code);
    }
    for (text, status, code) in [
        ("", 400, "malformed_json"),
        ("{\"min_seconds\": 5", 400, "malformed_json"),
        ("{\"min_seconds\": NaN}", 400, "malformed_json"),
        ("{\"min_seconds\": 5, \"min_seconds\": 6}", 400, "invalid_body"),
        ("{\"min_seconds\": 1e400}", 422, "unstorable"),
        ("{\"min_seconds\": 1e300}", 400, "invalid_request"),
    ] {
        let patch = api.client.patch(api.url("/v1/admin/config"));
        let refused = answer(patch.header("content-type", "application/json").body(text)).await;
        refused.assert_problem(status, code);
    }
    let untyped = api.client.patch(api.url("/v1/admin/config")).body("{}");
    answer(untyped).await.assert_problem(415, "unsupported_media_type");
    assert_eq!(database.text("select min_seconds from tidegate.setting").await.as_deref(), Some("400"));
    assert_eq!(api.patch("/v1/admin/config", &json!({})).await.body, json!({"changed": []}));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_history_comes_in_pages_that_meet() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    for burst in 2..=8 {
        api.patch("/v1/admin/config", &json!({"tx.burst": burst})).await;
    }

    let mut seen = Vec::new();
    let mut path = "/v1/admin/config/history?name=tx.burst&limit=3".to_owned();
    loop {
        let page = api.get(&path).await;
        assert_eq!(page.status, 200, "{page:?}");
        seen.extend(page.body["changes"].as_array().unwrap().iter().map(|change| change["new"].as_i64().unwrap()));
        let Some(next) = page.body["next_before"].as_i64() else {
            break;
        };
        path = format!("/v1/admin/config/history?name=tx.burst&limit=3&before={next}");
    }
    assert_eq!(seen, [8, 7, 6, 5, 4, 3, 2]);

    let actor = database.text("select session_user::text").await;
    let latest = api.get("/v1/admin/config/history?limit=1").await;
    let change = &latest.body["changes"][0];
    assert_eq!(
        (&change["actor"], &change["on_behalf_of"], &change["operation"]),
        (&json!(actor), &json!("http"), &json!("update"))
    );
    for (query, code) in [
        ("limit=0", "invalid_parameter"),
        ("limit=1001", "invalid_parameter"),
        ("limit=many", "invalid_parameter"),
        ("before=x", "invalid_parameter"),
        ("limits=5", "invalid_parameter"),
        ("limit=5&limit=6", "invalid_parameter"),
        ("name=%00", "invalid_parameter"),
    ] {
        let refused = api.get(&format!("/v1/admin/config/history?{query}")).await;
        refused.assert_problem(400, code);
    }
    api.get("/v1/admin/config/history?name=nope").await.assert_problem(404, "unknown_setting");
}

#[tokio::test(flavor = "multi_thread")]
async fn queues_are_shown_paused_and_resumed() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    api.submit("direct").await;

    let queues = api.get("/v1/admin/queues").await;
    let tx = &queues.body["queues"][1];
    assert_eq!((&tx["queue"], &tx["depth"], &tx["paused"]), (&json!("tx"), &json!(1), &json!(false)));

    for (action, paused, changed) in
        [("resume", false, false), ("pause", true, true), ("pause", true, false), ("resume", false, true)]
    {
        let acted = act(&api, &format!("/v1/admin/queues/tx/{action}")).await;
        assert_eq!(acted.status, 200);
        assert_eq!(acted.body, json!({"queue": "tx", "paused": paused, "changed": changed}));
        let is_paused = database.text("select paused from tidegate.queue where name = 'tx'").await;
        assert_eq!(is_paused, Some(paused.to_string()));
    }
    for queue in ["nope", "TX", "tx%20", "'; drop table x"] {
        act(&api, &format!("/v1/admin/queues/{queue}/pause")).await.assert_problem(404, "unknown_queue");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_failed_with_a_reason_and_one_that_has_ended_is_a_conflict() {
    let database = TestDatabase::unlimited().await;
    let api = Api::of(&database).await;
    let job = api.submit("public-decrypt").await;
    let id = job.rsplit('/').next().unwrap();
    let path = format!("/v1/admin/requests/{id}/fail");
    let reason = json!({"reason": "the gateway has lost it"});

    for (body, status, code) in [
        (json!({}), 400, "invalid_body"),
        (json!({"reason": null}), 400, "invalid_body"),
        (json!({"reason": "x", "retryable": true}), 400, "invalid_body"),
        (json!({"reason": " "}), 400, "invalid_request"),
        (json!({"reason": "x".repeat(1001)}), 400, "invalid_request"),
        (json!({"reason": "a\u{0}b"}), 422, "unstorable"),
    ] {
        api.post(&path, &body).await.assert_problem(status, code);
    }
    assert_eq!(api.get(&job).await.status, 202);

    // A caller that waits at this node is answered at once.
    let waiting = api.client.get(api.url(&job)).header("prefer", "wait=60");
    let (ended, failed) = tokio::join!(answer(waiting), api.post(&path, &reason));
    assert_eq!(failed.status, 200, "{failed:?}");
    assert_eq!(failed.body, json!({"outcome": "failed", "job_id": id, "state": "failure"}));
    assert_eq!(ended.status, 200, "{ended:?}");
    assert_eq!(
        ended.body["error"],
        json!({"code": "internal_error", "message": "the gateway has lost it; it was not sent", "retryable": true})
    );
    let actor = database
        .value(&format!(
            "select detail ->> 'on_behalf_of' from tidegate.request_event where request_id = '{id}' and to_status = 'failure'"
        ))
        .await;
    assert_eq!(actor, "http");

    let again = api.post(&path, &reason).await;
    assert_eq!((again.status, again.body), (failed.status, failed.body), "a repeated call");
    let other = api.post(&path, &json!({"reason": "another"})).await;
    other.assert_problem(409, "illegal_state");
    assert!(other.detail().contains("the request is failure"), "{other:?}");
    for unknown in ["00000000-0000-7000-8000-000000000000", "nope"] {
        api.post(&format!("/v1/admin/requests/{unknown}/fail"), &reason).await.assert_problem(404, "unknown_request");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_full_can_still_be_paused() {
    let database = TestDatabase::new().await;
    let options = tidegate_node::HttpOptions { concurrency_limit: 0, ..tidegate_node::HttpOptions::default() };
    let api = Api::start(database.store.clone(), &options).await;

    api.post("/v1/direct", &json!({})).await.assert_problem(503, "overloaded");
    let paused = act(&api, "/v1/admin/queues/tx/pause").await;

    assert_eq!(paused.body["changed"], Value::Bool(true));
}
