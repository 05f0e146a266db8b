//! Does an operator find requests of all kinds over HTTP?

use serde_json::{Value, json};

use super::{Answer, Api};
use crate::support::TestDatabase;

fn ids(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.status, 200, "{answer:?}");
    let requests = answer.body["requests"].as_array().unwrap();
    requests.iter().map(|request| request["job_id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_all_kinds_are_listed_by_filter_and_page_by_page() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    let submit = |kind: &str, submitter: &str| {
        format!("select id from tidegate.submit('{kind}', '{{}}', submitter => '{submitter}')")
    };
    let ann = database.value(&submit("direct", "ann")).await;
    let checked = database.value(&submit("user_decrypt", "ann")).await;
    let bob = database.value(&submit("direct", "bob")).await;

    let first = api.get("/v1/admin/requests?limit=2").await;
    assert_eq!(ids(&first), [&*bob, &*checked]);
    let cursor = first.body["next"].as_str().unwrap();
    let rest = api.get(&format!("/v1/admin/requests?limit=2&cursor={cursor}")).await;
    assert_eq!((ids(&rest), &rest.body["next"]), (vec![ann.clone()], &Value::Null));
    for (query, expected) in [
        ("submitter=ann", vec![&*checked, &*ann]),
        ("kind=direct&submitter=ann", vec![&*ann]),
        ("queue=readiness", vec![&*checked]),
        ("state=queued&state=failure", vec![&*checked]),
        ("until=2020-01-01T00:00:00Z", vec![]),
        ("cause=submitted&submitter=bob", vec![&*bob]),
        ("executed=no", vec![]),
        ("attempts=0&submitter=bob", vec![&*bob]),
        ("attempts=1", vec![]),
        ("since=2020-01-01T00:00:00Z&queue=tx", vec![&*bob, &*ann]),
    ] {
        assert_eq!(ids(&api.get(&format!("/v1/admin/requests?{query}")).await), expected, "{query}");
    }

    let waiting = api.get("/v1/admin/requests/waiting").await;
    assert_eq!(ids(&waiting), [&*ann, &*checked, &*bob]);
    assert_eq!(ids(&api.get("/v1/admin/requests/waiting?queue=tx&limit=1").await), [&*ann]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_filter_is_refused() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    for (path, status, code) in [
        ("?kind=nope", 404, "unknown_kind"),
        ("?queue=nope", 404, "unknown_queue"),
        ("/waiting?queue=nope", 404, "unknown_queue"),
        ("?state=lost", 400, "invalid_parameter"),
        ("?submitter=%00", 400, "invalid_parameter"),
        ("?kind=direct&kind=direct", 400, "invalid_parameter"),
        ("?until=yesterday", 400, "invalid_parameter"),
        ("?limit=1001", 400, "invalid_parameter"),
        ("?executed=maybe", 400, "invalid_parameter"),
        ("?attempts=-1", 400, "invalid_parameter"),
        ("?cause=%00", 400, "invalid_parameter"),
        ("?cursor=x", 400, "invalid_parameter"),
        ("?id=1", 400, "invalid_parameter"),
        ("/waiting?limit=0", 400, "invalid_parameter"),
        ("/waiting?queue=%00", 400, "invalid_parameter"),
        ("/waiting?kind=direct", 400, "invalid_parameter"),
    ] {
        api.get(&format!("/v1/admin/requests{path}")).await.assert_problem(status, code);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_cancelled_by_filter_batch_by_batch() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    for submitter in ["shop", "shop", "other"] {
        let submit = format!("select id from tidegate.submit('direct', '{{}}', submitter => '{submitter}')");
        database.value(&submit).await;
    }
    let path = "/v1/admin/requests/cancel";

    let dry = api.post(path, &json!({"submitter": "shop", "dry_run": true})).await;
    assert_eq!((&dry.body["cancelled"], &dry.body["next"]), (&json!(2), &Value::Null), "{dry:?}");
    let named = api.post(path, &json!({"requests": dry.body["requests"], "dry_run": true})).await;
    assert_eq!((&named.body["cancelled"], &named.body["next"]), (&json!(2), &Value::Null), "{named:?}");
    let first = api.post(path, &json!({"submitter": "shop", "limit": 1})).await;
    assert_eq!(first.body["cancelled"], 1, "{first:?}");
    let second = api.post(path, &json!({"submitter": "shop", "limit": 1, "cursor": first.body["next"]})).await;
    assert_eq!((&second.body["cancelled"], &second.body["next"]), (&json!(1), &Value::Null), "{second:?}");
    assert_eq!(
        database.value("select r.submitter from tidegate.request as r where r.finished_at is null").await,
        "other"
    );

    for (body, status, code) in [
        (json!({}), 400, "invalid_request"),
        (json!({"dry_run": true}), 400, "invalid_request"),
        (json!({"states": ["completed"]}), 400, "invalid_request"),
        (json!({"kind": "direct", "limit": 0}), 400, "invalid_request"),
        (json!({"requests": [1]}), 400, "invalid_body"),
        (json!({"kind": "nope"}), 404, "unknown_kind"),
        (json!({"queue": "nope"}), 404, "unknown_queue"),
        (json!({"states": ["lost"]}), 400, "invalid_body"),
        (json!({"kind": null}), 400, "invalid_body"),
        (json!({"submiter": "shop"}), 400, "invalid_body"),
        (json!({"submitter": "\u{0}"}), 422, "unstorable"),
    ] {
        api.post(path, &body).await.assert_problem(status, code);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_requests_are_redriven_by_filter() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    let failed = database.request_in("direct", "failure").await.to_string();
    let path = "/v1/admin/requests/redrive";
    let all = json!({"may_repeat": true, "code": "internal_error"});
    let dry = json!({"may_repeat": true, "dry_run": true});

    let none = api.post(path, &json!({"submitter": "shop", "may_repeat": true})).await;
    assert_eq!(none.body["requests"], json!([]), "{none:?}");
    for narrowed in [json!({"states": ["timed_out"]}), json!({"requests": []})] {
        assert_eq!(api.post(path, &narrowed).await.body["redriven"], 0, "{narrowed}");
    }
    let named = api.post(path, &json!({"requests": [failed], "states": ["failure"], "dry_run": true})).await;
    assert_eq!(named.body["redriven"], 1, "{named:?}");
    api.post(path, &json!({"states": ["queued"]})).await.assert_problem(400, "invalid_request");
    let listed = api.post(path, &dry).await;
    assert_eq!(listed.body["requests"], json!([{"job_id": failed, "redriven_as": null}]), "{listed:?}");
    let code = database.value("select error ->> 'code' from tidegate.request").await;
    let done = api.post(path, &json!({"may_repeat": true, "code": code})).await;
    assert_eq!(done.body["redriven"], 1, "{done:?}");
    assert!(done.body["requests"][0]["redriven_as"].is_string(), "{done:?}");
    assert_eq!(api.post(path, &all).await.body["redriven"], 0);

    api.post(path, &json!({"kind": "nope"})).await.assert_problem(404, "unknown_kind");
    api.post(path, &json!({"limit": 0})).await.assert_problem(400, "invalid_request");
    api.post(path, &json!({"since": "2h"})).await.assert_problem(400, "invalid_body");
}
