//! Does an operator see, hold and release gates and quotas over HTTP, and read their history?

use serde_json::{Value, json};

use super::{
    super::{Api, answer},
    act,
};
use crate::support::TestDatabase;

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
