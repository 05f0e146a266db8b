//! Does an operator find requests of all kinds over HTTP?

use serde_json::Value;

use super::{Answer, Api};
use crate::support::TestDatabase;

fn ids(answer: &Answer) -> Vec<String> {
    assert_eq!(answer.status, 200, "{answer:?}");
    let requests = answer.body["requests"].as_array().unwrap();
    requests
        .iter()
        .map(|request| request["job_id"].as_str().unwrap().to_owned())
        .collect()
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
        ("since=2020-01-01T00:00:00Z&queue=tx", vec![&*bob, &*ann]),
    ] {
        assert_eq!(
            ids(&api.get(&format!("/v1/admin/requests?{query}")).await),
            expected,
            "{query}"
        );
    }

    let waiting = api.get("/v1/admin/requests/waiting").await;
    assert_eq!(ids(&waiting), [&*ann, &*checked, &*bob]);
    assert_eq!(
        ids(&api.get("/v1/admin/requests/waiting?queue=tx&limit=1").await),
        [&*ann]
    );
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
        ("?cursor=x", 400, "invalid_parameter"),
        ("?id=1", 400, "invalid_parameter"),
        ("/waiting?limit=0", 400, "invalid_parameter"),
        ("/waiting?queue=%00", 400, "invalid_parameter"),
        ("/waiting?kind=direct", 400, "invalid_parameter"),
    ] {
        api.get(&format!("/v1/admin/requests{path}"))
            .await
            .assert_problem(status, code);
    }
}
