//! Does an operator make, see and remove kinds and queues over HTTP?

use serde_json::json;

use super::super::Api;
use crate::support::TestDatabase;

#[tokio::test(flavor = "multi_thread")]
async fn nothing_below_admin_is_taken_for_a_kind() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    let id = "01890000-0000-7000-8000-000000000000";
    for path in [
        "/v1/admin".to_owned(),
        "/v1/admin/".to_owned(),
        "/v1/admin/nope".to_owned(),
        format!("/v1/admin/{id}"),
        format!("/v1/admin/{id}/responses"),
        "/v1/admin/queues/tx/ajar".to_owned(),
        "/v1/admin/gates/tx/ajar".to_owned(),
        "/v1/admin/config/a/b".to_owned(),
    ] {
        api.get(&path).await.assert_problem(404, "unknown_path");
        api.post(&path, &json!({})).await.assert_problem(404, "unknown_path");
    }
    for path in ["/v1/admin/config", "/v1/admin/gates", "/v1/admin/queues/tx"] {
        api.post(path, &json!({})).await.assert_problem(405, "method_not_allowed");
    }
    api.get("/v1/admin/gates/tx/close").await.assert_problem(405, "method_not_allowed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_is_made_listed_and_takes_submissions_at_once() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    let payout = json!({"name": "payout", "flow": "direct", "per_seconds": 0.5});

    let made = api.post("/v1/admin/kinds", &payout).await;
    assert_eq!(made.status, 200, "{made:?}");
    let rate = json!({"subject": "queue payout", "name": "per_seconds", "value": "0.5"});
    assert!(made.body["made"].as_array().unwrap().contains(&rate), "{made:?}");
    let again = api.post("/v1/admin/kinds", &payout).await;
    assert_eq!((again.status.as_u16(), &again.body), (200, &json!({"made": []})));
    api.submit("payout").await;
    let checked = json!({
        "name": "report", "flow": "decrypt", "tx_queue": "payout", "readiness_queue": "checks", "response_threshold": 3,
        "max_concurrency": 9.0, "high_water": 7, "low_water": 2
    });
    assert_eq!(api.post("/v1/admin/kinds", &checked).await.status, 200);

    let kinds = api.get("/v1/admin/kinds").await;
    let kinds = kinds.body["kinds"].as_array().unwrap();
    for kind in [
        json!({
            "name": "report", "flow": "decrypt", "readiness_queue": "checks", "tx_queue": "payout",
            "response_threshold": 3, "per_seconds": 0.5, "max_concurrency": 9, "paused": false
        }),
        json!({
            "name": "payout", "flow": "direct", "readiness_queue": null, "tx_queue": "payout",
            "response_threshold": 1, "per_seconds": 0.5, "max_concurrency": null, "paused": false
        }),
    ] {
        assert!(kinds.contains(&kind), "{kinds:?}");
    }
    let gate = api.get("/v1/admin/gates/checks").await;
    assert_eq!((&gate.body["high_water"], &gate.body["low_water"]), (&json!(7), &json!(2)));
    let history = api.get("/v1/admin/config/history?name=payout").await;
    assert_eq!(history.body["changes"][0]["on_behalf_of"], "http");

    for (body, status, code, words) in [
        (json!({"name": "payout", "flow": "proof"}), 400, "invalid_request", "exists with flow direct"),
        (json!({"name": "a b", "flow": "direct"}), 400, "invalid_request", "lower snake case"),
        (json!({"name": "p", "flow": "direct", "tx_queue": "checks"}), 400, "invalid_request", "readiness stage"),
        (json!({"name": "p", "flow": "sideways"}), 400, "invalid_body", "sideways"),
        (json!({"name": "p", "flow": "direct", "speed": 1}), 400, "invalid_body", "speed"),
        (json!({"flow": "direct"}), 400, "invalid_body", "name"),
        (json!({"name": "p\u{0}", "flow": "direct"}), 422, "unstorable", ""),
    ] {
        let refused = api.post("/v1/admin/kinds", &body).await;
        refused.assert_problem(status, code);
        assert!(refused.detail().contains(words), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_and_queues_are_removed_when_they_are_free() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    api.post("/v1/admin/kinds", &json!({"name": "payout", "flow": "direct"})).await;
    let made = api.post("/v1/admin/queues", &json!({"name": "bulk", "stage": "tx", "per_seconds": 5})).await;
    assert_eq!(made.body["made"][0], json!({"subject": "queue bulk", "name": "stage", "value": "tx"}));
    api.submit("payout").await;
    let kind = "/v1/admin/kinds/payout";
    let submitters = api.get("/v1/admin/submitters").await;
    assert_eq!(submitters.body["submitters"][0]["waiting"], 1, "{submitters:?}");
    for (door, paused, changed) in [("pause", true, true), ("pause", true, false), ("resume", false, true)] {
        let said = api.post(&format!("{kind}/{door}"), &json!({})).await;
        let expected = json!({"kind": "payout", "paused": paused, "changed": changed});
        assert_eq!(said.body, expected, "{said:?}");
    }
    api.post("/v1/admin/kinds/nope/pause", &json!({})).await.assert_problem(404, "unknown_kind");

    api.delete(kind).await.assert_problem(400, "invalid_request");
    let draining = api.delete(&format!("{kind}?drain=true&requests=true")).await;
    assert_eq!((&draining.body["removed"], &draining.body["live"]), (&json!(false), &json!(1)), "{draining:?}");
    api.post("/v1/payout", &json!({})).await.assert_problem(429, "gate_closed");
    api.post("/v1/admin/requests/cancel", &json!({"kind": "payout"})).await;
    let removed = api.delete(&format!("{kind}?requests=true")).await;
    assert_eq!(removed.body["removed"], true, "{removed:?}");
    api.delete(kind).await.assert_problem(404, "unknown_kind");
    for queue in ["payout", "bulk"] {
        let removed = api.delete(&format!("/v1/admin/queues/{queue}")).await;
        assert_eq!(removed.body, json!({"queue": queue, "removed": true}));
    }
    api.delete("/v1/admin/queues/tx").await.assert_problem(400, "invalid_request");
    api.delete("/v1/admin/queues/bulk").await.assert_problem(404, "unknown_queue");
    api.delete(&format!("{kind}?force=true")).await.assert_problem(400, "invalid_parameter");
    api.post("/v1/admin/queues", &json!({"name": "b-2", "stage": "tx"})).await.assert_problem(400, "invalid_request");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_of_a_kind_and_a_queue_is_shown_by_the_minute() {
    let database = TestDatabase::unlimited().await;
    let api = Api::of(&database).await;
    database.request_in("direct", "completed").await;
    database.execute("select tidegate.fold_counts(); select tidegate.record_minutes()").await;

    let kind = api.get("/v1/admin/kinds/direct/history").await;
    assert_eq!(kind.status, 200, "{kind:?}");
    let [minute] = kind.body["minutes"].as_array().unwrap().as_slice() else {
        panic!("{kind:?}");
    };
    assert_eq!((&minute["completed"], &minute["failed"]), (&json!(1), &json!(0)), "{minute}");
    let queue = api.get("/v1/admin/queues/tx/history").await;
    assert_eq!(queue.body["minutes"][0]["depth"], 0, "{queue:?}");

    let later = "since=2100-01-01T00:00:00Z";
    for of in ["kinds/direct", "queues/tx"] {
        let none = api.get(&format!("/v1/admin/{of}/history?{later}")).await;
        assert_eq!(none.body, json!({"minutes": []}));
        api.get(&format!("/v1/admin/{of}/history?since=yesterday")).await.assert_problem(400, "invalid_parameter");
    }
    let unknown = format!("/v1/admin/kinds/nope/history?{later}");
    api.get(&unknown).await.assert_problem(404, "unknown_kind");
    let unknown = format!("/v1/admin/queues/nope/history?{later}");
    api.get(&unknown).await.assert_problem(404, "unknown_queue");
}
