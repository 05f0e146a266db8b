//! What the pages show, and that nothing which a caller controls changes them.

use tidegate_node::PageOptions;

use super::{Browser, PAGES, pages, some_requests};
use crate::support::TestDatabase;

#[tokio::test(flavor = "multi_thread")]
async fn every_page_is_html_of_this_node_alone_under_a_strict_policy() {
    let database = TestDatabase::unlimited().await;
    let ids = some_requests(&database).await;
    let options = PageOptions {
        instance: Some("production".to_owned()),
        colour: Some("red".to_owned()),
        ..PageOptions::default()
    };
    let api = pages(&database, options).await;
    let browser = Browser::of(&api);

    let of_requests = ids.iter().map(|id| format!("/ui/requests/{id}"));
    let others =
        ["/ui/history?queue=tx&hours=24", "/ui/history?kind=direct", "/ui/settings?name=direct", "/ui/sign-in"];
    let paths = PAGES.into_iter().chain(others).map(str::to_owned).chain(of_requests);
    for path in paths {
        let shown = browser.get(&path).await;
        assert_eq!(shown.status, 200, "{path}: {}", shown.html);
        let header = |name: &str| shown.headers.get(name).map_or("", |value| value.to_str().unwrap());
        assert_eq!(header("content-type"), "text/html; charset=utf-8", "{path}");
        let policy = header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'; ") && !policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(header("cache-control"), "no-store", "{path}");
        assert_eq!(header("x-frame-options"), "DENY", "{path}");
        // Neither scripts nor styles in the text, which the policy would stop, nor anything of another host.
        for wrong in ["<style", "style=\"", "onclick", "javascript:", "src=\"http", "href=\"http", "//cdn"] {
            assert!(!shown.html.contains(wrong), "{path}: {wrong}");
        }
        for script in shown.html.split("<script").skip(1) {
            assert!(script.starts_with(" defer src=\"/ui/assets/"), "{path}: {script}");
        }
        assert!(path == "/ui/sign-in" || shown.html.contains("production"), "{path}");
    }
    let unknown = browser.get("/ui/requests/00000000-0000-7000-8000-000000000000").await;
    assert_eq!(unknown.status, 404);
    assert_eq!(browser.get("/ui/nowhere").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn assets_are_kept_by_browsers_under_names_that_change_with_them() {
    let database = TestDatabase::new().await;
    let api = pages(&database, PageOptions::default()).await;
    let browser = Browser::of(&api);
    let page = browser.get("/ui").await;
    let names = page.html.split("/ui/assets/").skip(1).map(|after| after.split('"').next().unwrap());
    let names: Vec<_> = names.collect();
    assert_eq!(names.len(), 3, "{names:?}");
    for name in names {
        let asset = browser.get(&format!("/ui/assets/{name}")).await;
        assert_eq!(asset.status, 200, "{name}");
        assert!(asset.headers["cache-control"].to_str().unwrap().contains("immutable"), "{name}");
    }
    assert_eq!(browser.get("/ui/assets/ui-000000000000.js").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_callers_control_changes_no_page() {
    let database = TestDatabase::unlimited().await;
    let hostile = "</td><script>alert(1)</script><img src=x onerror=alert(2)>\u{202e}\"'&amp;";
    let mark = "<script>alert";
    let store = &database.store;
    let long = "x".repeat(1024 * 1024);
    for text in [hostile, &long[..200]] {
        let payload = serde_json::json!({ "a": text, "long": long });
        let id: String = sqlx::query_scalar(
            "select id::text from tidegate.submit('direct', $1::jsonb, submitter => $2, idempotency_key => $3)",
        )
        .bind(payload)
        .bind(text)
        .bind(text)
        .fetch_one(&database.pool)
        .await
        .unwrap();
        store.fail_request(id.parse().unwrap(), text).await.unwrap();
    }
    sqlx::query("select tidegate.quota_set(submitter => $1, high_water => 5)")
        .bind(hostile)
        .execute(&database.pool)
        .await
        .unwrap();
    store.worker_seen(hostile, &["tx"], &["tx"], &["direct".to_owned()], false).await.unwrap();
    let ids = database.column("select id from tidegate.request").await;
    let api = pages(&database, PageOptions { instance: Some(hostile.to_owned()), ..PageOptions::default() }).await;
    let browser = Browser::of(&api);
    let parts = ["", "/payload"];
    let of_requests = ids.iter().flat_map(|id| parts.iter().map(move |part| format!("/ui/requests/{id}{part}")));
    let filter = query(&[("submitter", hostile), ("cause", hostile)]);
    let filters = [format!("/ui/requests?{filter}"), format!("/ui/requests?{}", query(&[("find", hostile)]))];
    for path in PAGES.into_iter().map(str::to_owned).chain(of_requests).chain(filters) {
        let shown = browser.get(&path).await;
        assert_eq!(shown.status, 200, "{path}");
        assert!(!shown.html.contains(mark) && !shown.html.contains("<img"), "{path}: {}", shown.html);
        assert!(shown.html.len() < 1024 * 1024, "{path}: {}", shown.html.len());
        assert_eq!(shown.html.matches("</main>").count(), 1, "{path}");
    }
    // Values of an address that are none.
    for path in [
        "/ui/requests?state=nope",
        "/ui/requests?attempts=x",
        "/ui/requests?since=yesterday",
        "/ui/requests?before=1",
        "/ui/requests?submitter=%00",
        "/ui/honesty?hours=25",
        "/ui/settings?name=nope",
    ] {
        let shown = browser.get(path).await;
        assert_eq!(shown.status, 422, "{path}: {}", shown.html);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_are_in_the_address_and_pages_go_on_where_the_last_one_ended() {
    let database = TestDatabase::unlimited().await;
    let ids = some_requests(&database).await;
    for _ in 0..120 {
        database.submit("input_proof").await;
    }
    let api = pages(&database, PageOptions::default()).await;
    let browser = Browser::of(&api);
    let first = browser.get("/ui/requests?kind=input_proof").await;
    first.says("120 requests match");
    assert_eq!(first.html.matches("name=\"id\"").count(), 100);
    let (_, link) = first.html.split_once("href=\"/ui/requests?kind=input_proof&amp;before=").unwrap();
    let next = browser.get(&format!("/ui/requests?kind=input_proof&before={}", link.split('"').next().unwrap())).await;
    assert_eq!(next.html.matches("name=\"id\"").count(), 20);
    next.says("These are the oldest.");

    for (filter, expected) in [
        ("state=completed&kind=direct", 1),
        ("executed=yes&kind=direct", 1),
        ("cause=internal_error&kind=direct", 1),
        ("attempts=1&kind=direct", 3),
        ("queue=tx&kind=direct", 1),
        ("since=1h&kind=direct", 5),
        ("until=1h&kind=direct", 0),
        ("submitter=nobody", 0),
    ] {
        let shown = browser.get(&format!("/ui/requests?{filter}")).await;
        assert_eq!(shown.html.matches("name=\"id\"").count(), expected, "{filter}: {}", shown.html);
    }
    let found = browser.get(&format!("/ui/requests?find={}", ids[0])).await;
    assert_eq!(found.location(), format!("/ui/requests/{}", ids[0]));
    let keyed: String = database
        .value("select id from tidegate.submit('direct', '1', idempotency_key => 'k-1', submitter => 'ann')")
        .await;
    let by_key = browser.get("/ui/requests?find=k-1&kind=direct&submitter=ann").await;
    assert_eq!(by_key.location(), format!("/ui/requests/{keyed}"));
    browser.get("/ui/requests?find=nothing").await.says("No request has the id");
}

fn query(pairs: &[(&str, &str)]) -> String {
    let url = reqwest::Url::parse_with_params("http://host/", pairs).unwrap();
    url.query().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_kind_hides_is_not_shown() {
    let database = TestDatabase::unlimited().await;
    database.execute("select tidegate.config_set('direct.hidden_paths', 'card.number,items.name,whole')").await;
    let api = pages(&database, PageOptions::default()).await;
    let browser = Browser::of(&api);
    let payload = r#"{"card": {"number": 4711, "until": "2030"}, "items": [{"name": "a", "count": 2}, [{"name": "b"}], "name"],
        "whole": ["secret"], "number": 5}"#;
    let id = database.value(&format!("select id from tidegate.submit('direct', '{payload}')")).await;
    let page = browser.get(&format!("/ui/requests/{id}/payload")).await;
    for words in ["4711", "secret", "&quot;a&quot;", "&quot;b&quot;"] {
        assert!(!page.html.contains(words), "{words}: {}", page.html);
    }
    for words in ["(hidden)", "2030", "&quot;count&quot;: 2", "&quot;number&quot;: 5", "&quot;name&quot;]"] {
        page.says(words);
    }
    assert_eq!(browser.get(&format!("/ui/requests/{id}/response")).await.status, 404, "it has none");
    // One that is no object, and one without such members.
    for payload in ["7", "{\"card\": 7}", "null"] {
        let id = database.value(&format!("select id from tidegate.submit('direct', '{payload}')")).await;
        assert_eq!(browser.get(&format!("/ui/requests/{id}/payload")).await.status, 200, "{payload}");
    }
}
