//! Does an operator see and change settings, queues and requests over HTTP, with history, reasons and refusals?

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
async fn gates_are_shown_marked_held_and_released() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    api.submit("direct").await;

    let gates = api.get("/v1/admin/gates").await;
    assert_eq!(gates.body["gates"].as_array().unwrap().len(), 2);

    let marked = api.patch("/v1/admin/gates/tx", &json!({"high_water": 10.0, "low_water": 5, "mode": "soft"})).await;
    assert_eq!(marked.status, 200, "{marked:?}");
    assert_eq!(marked.body["changed"].as_array().unwrap().len(), 3);
    let gate = &marked.body["gate"];
    assert_eq!((&gate["high_water"], &gate["low_water"], &gate["mode"]), (&json!(10), &json!(5), &json!("soft")));

    for (action, state, forced, epoch, changed) in [
        ("release", "accepting", false, 0, false),
        ("close", "too_many_requests", true, 1, true),
        ("close", "too_many_requests", true, 1, false),
        ("open", "accepting", true, 2, true),
        ("release", "accepting", false, 3, true),
    ] {
        let acted = act(&api, &format!("/v1/admin/gates/tx/{action}")).await;
        assert_eq!(acted.status, 200, "{acted:?}");
        assert_eq!(acted.body["changed"], changed, "{action}");
        let shown = api.get("/v1/admin/gates/tx").await;
        assert_eq!(shown.body, acted.body["gate"]);
        let expected = json!({"state": state, "forced": forced, "epoch": epoch});
        for member in ["state", "forced", "epoch"] {
            assert_eq!(shown.body[member], expected[member], "{action}");
        }
    }
    assert_eq!(
        database
            .text("select depth || ' ' || cause || ' ' || on_behalf_of from tidegate.gate_event where epoch = 1")
            .await
            .as_deref(),
        Some("1 forced closed http")
    );

    for (body, code) in [
        (json!({"high_water": 1}), "invalid_request"),
        (json!({"high_water": 10.5}), "invalid_body"),
        (json!({"high_water": "10"}), "invalid_body"),
        (json!({"high_water": 4_294_967_306_i64}), "invalid_body"),
        (json!({"low_water": null}), "invalid_body"),
        (json!({"mode": "hard"}), "invalid_body"),
        (json!({"state": "accepting"}), "invalid_body"),
        (json!({"forced": true}), "invalid_body"),
        (json!(7), "invalid_body"),
    ] {
        let refused = api.patch("/v1/admin/gates/tx", &body).await;
        refused.assert_problem(400, code);
    }
    let unknown = [
        api.get("/v1/admin/gates/nope").await,
        api.patch("/v1/admin/gates/nope", &json!({"high_water": 10})).await,
        act(&api, "/v1/admin/gates/nope/close").await,
    ];
    for unknown in unknown {
        unknown.assert_problem(404, "unknown_queue");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn quotas_are_made_changed_held_and_removed() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    api.submit("direct").await;
    let put = |path: &str, body: Value| {
        let asking = api.client.put(api.url(&format!("/v1/admin/quotas/{path}")));
        answer(asking.json(&body))
    };

    for changed in [true, false] {
        let made = put("kind/direct", json!({"high_water": 9})).await;
        assert_eq!(made.status, 200, "{made:?}");
        assert_eq!(made.body["changed"], changed);
        let quota = &made.body["gate"];
        let shown = json!({
            "name": "kind direct", "queue": null, "kind": "direct", "submitter": null, "state": "accepting",
            "mode": "strict", "depth": 1, "high_water": 9, "low_water": 4, "forced": false, "epoch": 0,
            "depth_at_change": 0, "changed_at": quota["changed_at"]
        });
        assert_eq!(quota, &shown);
    }
    // Any name that a submitter may have.
    let odd = "submitter/a%2Fb%20%C3%A9%22%3F%25";
    let made = put(odd, json!({"high_water": 5, "low_water": 1, "mode": "soft"})).await;
    assert_eq!(made.body["gate"]["submitter"], "a/b \u{e9}\"?%");
    let patched = api.patch(&format!("/v1/admin/quotas/{odd}"), &json!({"low_water": 2})).await;
    assert_eq!(patched.body["changed"][0]["new"], 2, "{patched:?}");
    assert_eq!(patched.body["gate"]["low_water"], 2);

    let gates = api.get("/v1/admin/gates").await;
    let names: Vec<_> =
        gates.body["gates"].as_array().unwrap().iter().map(|gate| gate["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["readiness", "tx", "kind direct", "submitter a/b \u{e9}\"?%"]);

    for (action, state, forced) in
        [("close", "too_many_requests", true), ("open", "accepting", true), ("release", "accepting", false)]
    {
        for quota in ["kind/direct", odd] {
            let acted = act(&api, &format!("/v1/admin/quotas/{quota}/{action}")).await;
            assert_eq!(acted.body["changed"], true, "{acted:?}");
            let shown = api.get(&format!("/v1/admin/quotas/{quota}")).await;
            assert_eq!(shown.body, acted.body["gate"]);
            assert_eq!((&shown.body["state"], &shown.body["forced"]), (&json!(state), &json!(forced)));
        }
    }

    for (path, body, status, code) in [
        ("kind/nope", json!({"high_water": 9}), 404, "unknown_kind"),
        ("queue/tx", json!({"high_water": 9}), 404, "unknown_quota"),
        ("kind/direct", json!({}), 400, "invalid_body"),
        ("kind/direct", json!({"high_water": 3}), 400, "invalid_request"),
        ("kind/direct", json!({"high_water": 9, "low_water": null}), 400, "invalid_body"),
        ("submitter/%00", json!({"high_water": 9}), 404, "unknown_quota"),
        ("submitter/ann", json!({"high_water": 0}), 400, "invalid_request"),
    ] {
        put(path, body).await.assert_problem(status, code);
    }
    let long = format!("submitter/{}", "x".repeat(201));
    put(&long, json!({"high_water": 9})).await.assert_problem(404, "unknown_quota");
    api.patch("/v1/admin/quotas/kind/direct", &json!({"high_water": 4})).await.assert_problem(400, "invalid_request");
    let unknown = [
        api.get("/v1/admin/quotas/submitter/bob").await,
        api.patch("/v1/admin/quotas/submitter/bob", &json!({"high_water": 10})).await,
        act(&api, "/v1/admin/quotas/kind/input_proof/close").await,
    ];
    for unknown in unknown {
        unknown.assert_problem(404, "unknown_quota");
    }

    for changed in [true, false] {
        let removed = api.delete("/v1/admin/quotas/kind/direct").await;
        assert_eq!(removed.body, json!({"changed": changed}));
    }
    let who =
        database.text("select distinct on_behalf_of from tidegate.config_change where row_key = 'kind direct'").await;
    assert_eq!(who.as_deref(), Some("http"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_history_of_gates_comes_in_pages_that_meet() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    for _ in 0..3 {
        act(&api, "/v1/admin/gates/tx/close").await;
        act(&api, "/v1/admin/gates/readiness/close").await;
        act(&api, "/v1/admin/gates/tx/release").await;
    }
    for (gate, expected) in
        [("gate=tx&", vec![6, 5, 4, 3, 2, 1]), ("", vec![6, 5, 4, 3, 2, 1, 1]), ("gate=nope&", vec![])]
    {
        let mut seen = Vec::new();
        let mut before = String::new();
        loop {
            let path = format!("/v1/admin/gates/history?{gate}limit=2{before}");
            let page = api.get(&path).await;
            let changes = page.body["changes"].as_array().unwrap();
            seen.extend(changes.iter().map(|change| change["epoch"].as_i64().unwrap()));
            let Some(next) = page.body["next_before"].as_i64() else {
                break;
            };
            before = format!("&before={next}");
        }
        seen.sort_unstable_by(|one, two| two.cmp(one));
        assert_eq!(seen, expected, "{gate}");
    }
    let latest = api.get("/v1/admin/gates/history?limit=1").await;
    let change = &latest.body["changes"][0];
    assert_eq!(
        (&change["gate"], &change["signal"], &change["cause"], &change["actor"]),
        (&json!("tx"), &json!("ACCEPTING_REQUESTS"), &json!("released"), &json!("http"))
    );
    for query in ["limit=0", "limit=1001", "before=x", "queue=tx", "gate=%00"] {
        api.get(&format!("/v1/admin/gates/history?{query}")).await.assert_problem(400, "invalid_parameter");
    }
}

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
async fn a_node_that_is_full_can_still_be_paused() {
    let database = TestDatabase::new().await;
    let options = tidegate_node::HttpOptions { concurrency_limit: 0, ..tidegate_node::HttpOptions::default() };
    let api = Api::start(database.store.clone(), &options).await;

    api.post("/v1/direct", &json!({})).await.assert_problem(503, "overloaded");
    let paused = act(&api, "/v1/admin/queues/tx/pause").await;

    assert_eq!(paused.body["changed"], Value::Bool(true));
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
