//! Lists as callers page through them.

use serde_json::{Value, json};
use tidegate::internals::api_key::Scope;

use super::{Answer, Api, access::key};
use crate::support::{TestDatabase, race::submit_many};

fn ids(page: &Answer) -> Vec<String> {
    assert_eq!(page.status, 200, "{page:?}");
    let requests = page.body["requests"].as_array().unwrap();
    requests.iter().map(|request| request["job_id"].as_str().unwrap().to_owned()).collect()
}

/// The path of the next page, as the header tells it; the body says the same.
fn next(page: &Answer) -> Option<String> {
    let link = page.header("link");
    match &page.body["next"] {
        Value::Null => {
            assert_eq!(link, "");
            None
        }
        Value::String(cursor) => {
            let path = link.strip_prefix('<').unwrap();
            let path = path.strip_suffix(">; rel=\"next\"").unwrap();
            assert!(path.contains(&format!("cursor={cursor}")), "{link}");
            Some(path.to_owned())
        }
        strange => panic!("{strange}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_shows_each_request_newest_first_and_links_its_pages() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    let mut submitted = Vec::new();
    for _ in 0..5 {
        let path = api.submit("direct").await;
        submitted.insert(0, path.rsplit('/').next().unwrap().to_owned());
    }
    api.submit("input-proof").await;
    api.delete(&format!("/v1/direct/{}", submitted[1])).await;

    let mut page = api.get("/v1/direct?limit=2").await;
    let mut listed = ids(&page);
    let first = page.body["requests"][0].clone();
    let cancelled = page.body["requests"][1].clone();
    // What comes in meanwhile is newer than every later page.
    api.submit("direct").await;
    while let Some(path) = next(&page) {
        page = api.get(&path).await;
        assert!(ids(&page).len() <= 2);
        listed.extend(ids(&page));
    }

    assert_eq!(listed, submitted);
    assert_eq!(first["status"], "queued");
    assert_eq!(first["state"], "processing");
    assert_eq!(first["submitter"], Value::Null);
    assert!(first["submitted_at"].as_str().unwrap().ends_with('Z'));
    assert!(first.get("finished_at").is_none());
    assert_eq!(cancelled["status"], "failed");
    assert!(cancelled["finished_at"].is_string());
    let empty = api.get("/v1/user-decrypt").await;
    assert_eq!(empty.body, json!({"requests": [], "next": null}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_narrowed_by_states_and_time_on_every_page() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    submit_many(&database, "public_decrypt", 5).await;
    database.execute("select pg_sleep(0.002)").await;
    let since = database
        .value("select to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')")
        .await;
    submit_many(&database, "public_decrypt", 5).await;
    let all = ids(&api.get("/v1/public-decrypt").await);
    for cancelled in [&all[1], &all[3], &all[9]] {
        api.delete(&format!("/v1/public-decrypt/{cancelled}")).await;
    }

    let narrowed = |query: String| {
        let api = &api;
        async move {
            let mut path = Some(format!("/v1/public-decrypt?limit=1&{query}"));
            let mut listed = Vec::new();
            while let Some(asked) = path {
                let page = api.get(&asked).await;
                listed.extend(ids(&page));
                path = next(&page);
            }
            listed
        }
    };

    assert_eq!(narrowed("state=failure".to_owned()).await, [&all[1], &all[3], &all[9]].map(Clone::clone));
    assert_eq!(narrowed(format!("state=failure&since={since}")).await, [all[1].clone(), all[3].clone()]);
    assert_eq!(narrowed(format!("since={since}")).await, all[..5]);
    assert_eq!(narrowed("state=failure&state=queued".to_owned()).await, all);
    assert!(narrowed("state=completed".to_owned()).await.is_empty());
    // An offset, with its plus sign encoded.
    let offset = since.replace('Z', "%2B00:00");
    assert_eq!(narrowed(format!("since={offset}")).await, all[..5]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_parameter_or_an_invalid_value_of_a_list_is_refused() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;

    for query in [
        "page=2",
        "State=queued",
        "state=",
        "state=done",
        "state=queued,failure",
        "since=yesterday",
        "since=2030-01-31",
        "since=2030-01-31T12:00:00Z&since=2030-01-31T12:00:00Z",
        "cursor=",
        "cursor=x",
        "cursor=01890000-0000-7000-8000-000000000000",
        "cursor=018900000000700080000000000000zz",
        "limit=0",
        "limit=-1",
        "limit=1001",
        "limit=1e2",
        "limit=99999999999999999999",
        "limit=1&limit=1",
        "%ff=%00",
        "'; drop table tidegate.request",
    ] {
        let refused = api.get(&format!("/v1/direct?{query}")).await;
        refused.assert_problem(400, "invalid_parameter");
    }
    api.get("/v1/teleport").await.assert_problem(404, "unknown_kind");
    assert_eq!(api.get("/v1/direct?").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rare_match_is_found_page_by_page() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    let rare = api.submit("direct").await;
    api.delete(&rare).await;
    submit_many(&database, "direct", 10_000).await;
    submit_many(&database, "direct", 10_000).await;

    let first = api.get("/v1/direct?state=failure").await;
    let second = api.get(&next(&first).unwrap()).await;
    let third = api.get(&next(&second).unwrap()).await;

    assert!(ids(&first).is_empty() && ids(&second).is_empty());
    assert_eq!(ids(&third), [rare.rsplit('/').next().unwrap()]);
    assert_eq!(next(&third), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_has_the_submitters_own_requests_and_all_for_an_admin() {
    let database = TestDatabase::new().await;
    let alice = key(&database, "alice", &[Scope::Submit]).await;
    let bob = key(&database, "bob", &[Scope::Submit]).await;
    let respond = key(&database, "downstream", &[Scope::Respond]).await;
    let admin = key(&database, "admin", &[Scope::Admin]).await;
    let api = Api::of(&database).await;
    for _ in 0..3 {
        api.bearing(&alice).submit("direct").await;
        api.bearing(&bob).submit("direct").await;
    }
    database.submit("direct").await;

    for (key, submitters) in [
        (&alice, vec!["alice"; 3]),
        (&bob, vec!["bob"; 3]),
        (&admin, vec!["", "bob", "alice", "bob", "alice", "bob", "alice"]),
    ] {
        let mut listed = Vec::new();
        let mut path = Some("/v1/direct?limit=2".to_owned());
        while let Some(asked) = path {
            let page = api.bearing(key).get(&asked).await;
            for request in page.body["requests"].as_array().unwrap() {
                listed.push(request["submitter"].as_str().unwrap_or_default().to_owned());
            }
            path = next(&page);
        }
        assert_eq!(listed, submitters);
    }
    // Another's cursor is a place and no permission.
    let hers = api.bearing(&alice).get("/v1/direct?limit=1").await;
    let his = api.bearing(&bob).get(&next(&hers).unwrap()).await;
    assert_eq!(his.body["requests"][0]["submitter"], "bob");
    api.bearing(&respond).get("/v1/direct").await.assert_problem(403, "insufficient_scope");
    api.get("/v1/direct").await.assert_problem(401, "unauthenticated");
}
