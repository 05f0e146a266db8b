//! The pages for operators, as a browser gets them: what they show, who may see and do what, and that nothing which a
//! caller controls changes them.

use reqwest::{
    Client, Method, RequestBuilder, Response, StatusCode,
    header::{COOKIE, HeaderMap, LOCATION, SET_COOKIE},
    redirect::Policy,
};
use tidegate::{
    internals::api_key::{ApiKey, Scope},
    request::RequestId,
};
use tidegate_node::{ConnectionOptions, Node, NodeOptions, PageOptions, Visitors};

use super::{Api, access::key};
use crate::support::{TestDatabase, eventually};

const PAGES: [&str; 9] = [
    "/ui",
    "/ui/honesty",
    "/ui/requests",
    "/ui/gates",
    "/ui/stages",
    "/ui/workers",
    "/ui/webhooks",
    "/ui/settings",
    "/ui/doctor",
];

/// A node with its pages.
async fn pages(database: &TestDatabase, options: PageOptions) -> Api {
    let node = Node::of_store(database.store.clone(), NodeOptions::default());
    Api::serve(node.router().merge(node.pages(options)), ConnectionOptions::default()).await
}

/// A browser without scripts, which keeps its cookie and follows no redirect.
struct Browser<'a> {
    api: &'a Api,
    client: Client,
    cookie: Option<String>,
}

struct Shown {
    status: StatusCode,
    headers: HeaderMap,
    html: String,
}

impl<'a> Browser<'a> {
    fn of(api: &'a Api) -> Self {
        Self { api, client: Client::builder().no_proxy().redirect(Policy::none()).build().unwrap(), cookie: None }
    }

    async fn signed_in(api: &'a Api, key: &ApiKey) -> Self {
        let mut browser = Self::of(api);
        let shown = browser.sign_in(key.expose()).await;
        assert_eq!(shown.status, 303, "{}", shown.html);
        browser
    }

    async fn sign_in(&mut self, key: &str) -> Shown {
        let shown = self.send(self.ask(Method::POST, "/ui/sign-in").form(&[("key", key), ("to", "/ui/gates")])).await;
        let cookie = shown.headers.get(SET_COOKIE).map(|cookie| cookie.to_str().unwrap().to_owned());
        self.cookie = cookie.map(|cookie| cookie.split(';').next().unwrap().to_owned());
        shown
    }

    fn ask(&self, method: Method, path: &str) -> RequestBuilder {
        let asking = self.client.request(method, self.api.url(path));
        match &self.cookie {
            Some(cookie) => asking.header(COOKIE, cookie),
            None => asking,
        }
    }

    async fn send(&self, asking: RequestBuilder) -> Shown {
        let answer: Response = asking.send().await.unwrap();
        let (status, headers) = (answer.status(), answer.headers().clone());
        Shown { status, headers, html: answer.text().await.unwrap() }
    }

    async fn get(&self, path: &str) -> Shown {
        self.send(self.ask(Method::GET, path)).await
    }

    /// Sends a form as the page at `page` has it, with its seal.
    async fn act(&self, page: &str, path: &str, fields: &[(&str, &str)]) -> Shown {
        let seal = self.get(page).await.seal();
        let fields: Vec<_> = fields.iter().copied().chain([("seal", &*seal)]).collect();
        self.send(self.ask(Method::POST, path).form(&fields)).await
    }
}

impl Shown {
    fn seal(&self) -> String {
        let (_, after) = self.html.split_once(r#"name="seal" value=""#).unwrap_or_default();
        after.split('"').next().unwrap_or_default().to_owned()
    }

    fn location(&self) -> &str {
        self.headers.get(LOCATION).map_or("", |location| location.to_str().unwrap())
    }

    fn says(&self, words: &str) {
        assert!(self.html.contains(words), "{words}: {}", self.html);
    }
}

async fn some_requests(database: &TestDatabase) -> Vec<RequestId> {
    let mut ids = Vec::new();
    for status in ["completed", "failure", "timed_out", "receipt_received", "processing"] {
        ids.push(RequestId(database.request_in("direct", status).await));
    }
    ids
}

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
    let query = serde_urlencoded(&[("submitter", hostile), ("cause", hostile)]);
    let filters = [format!("/ui/requests?{query}"), format!("/ui/requests?{}", serde_urlencoded(&[("find", hostile)]))];
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

fn serde_urlencoded(pairs: &[(&str, &str)]) -> String {
    let url = reqwest::Url::parse_with_params("http://host/", pairs).unwrap();
    url.query().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn once_there_is_a_key_viewers_sign_in_and_see_and_do_what_its_scopes_allow() {
    let database = TestDatabase::unlimited().await;
    let admin = key(&database, "boss", &[Scope::Admin]).await;
    let reader = key(&database, "reader", &[Scope::Read]).await;
    let auditor = key(&database, "auditor", &[Scope::Payload]).await;
    let caller = key(&database, "shop", &[Scope::Submit]).await;
    let id = database.request_in("direct", "processing").await;
    let api = pages(&database, PageOptions::default()).await;

    let mut stranger = Browser::of(&api);
    let sent_away = stranger.get("/ui/requests?kind=direct").await;
    assert_eq!(
        (sent_away.status.as_u16(), sent_away.location()),
        (303, "/ui/sign-in?to=%2Fui%2Frequests%3Fkind%3Ddirect")
    );
    assert_eq!(stranger.get("/ui/live/now").await.status, 303);
    for (wrong, words) in [
        ("", "this is no API key"),
        ("tg_x", "this is no API key"),
        (ApiKey::generate().unwrap().expose(), "unknown or was revoked"),
    ] {
        let refused = stranger.sign_in(wrong).await;
        assert_eq!(refused.status, 403);
        refused.says(words);
    }
    assert_eq!(stranger.sign_in(caller.expose()).await.status, 403, "a key that only submits");

    let reading = Browser::signed_in(&api, &reader).await;
    let page = reading.get(&format!("/ui/requests/{id}")).await;
    page.says("read only");
    assert!(!page.html.contains("/cancel\""), "a reader has no forms of acts");
    assert_eq!(reading.get(&format!("/ui/requests/{id}/payload")).await.status, 403);
    let refused = reading.act("/ui", &format!("/ui/requests/{id}/cancel"), &[]).await;
    assert_eq!(refused.status, 403);
    refused.says("scope `admin`");

    let auditing = Browser::signed_in(&api, &auditor).await;
    assert_eq!(auditing.get(&format!("/ui/requests/{id}/payload")).await.status, 200);

    let acting = Browser::signed_in(&api, &admin).await;
    assert_eq!(
        acting.get(&format!("/ui/requests/{id}/payload")).await.status,
        403,
        "payloads have a scope of their own"
    );
    let done = acting.act("/ui", &format!("/ui/requests/{id}/cancel"), &[]).await;
    assert_eq!((done.status.as_u16(), done.location()), (303, &*format!("/ui/requests/{id}?done=cancelled")));
    acting.get(done.location()).await.says("It is cancelled.");
    assert_eq!(database.status(RequestId(id)).await, "failure");

    // A session ends for all nodes: by sign-out, in time, and with its key.
    let signed_out = acting.act("/ui", "/ui/sign-out", &[]).await;
    assert_eq!(signed_out.location(), "/ui/sign-in");
    assert_eq!(acting.get("/ui").await.status, 303);
    database.execute("update tidegate.page_session set expires_at = clock_timestamp() where key_id <> ''").await;
    assert_eq!(reading.get("/ui").await.status, 303);
    let again = Browser::signed_in(&api, &reader).await;
    database.store.key_revoke(reader.id()).await.unwrap();
    eventually("the key has ended", || async { again.get("/ui").await.status == 303 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cookie_of_a_session_is_for_this_site_and_no_script() {
    let database = TestDatabase::new().await;
    let admin = key(&database, "boss", &[Scope::Admin]).await;
    let api = pages(&database, PageOptions::default()).await;
    let browser = Browser::of(&api);
    for (proto, secure) in [("http", false), ("https", true)] {
        let asking = browser.ask(Method::POST, "/ui/sign-in").header("x-forwarded-proto", proto);
        let shown = browser.send(asking.form(&[("key", admin.expose()), ("to", "https://evil.example/")])).await;
        assert_eq!(shown.location(), "/ui", "no way to another site");
        let cookie = shown.headers[SET_COOKIE].to_str().unwrap();
        assert!(cookie.contains("; Path=/ui; ") && cookie.contains("; HttpOnly; SameSite=Strict"), "{cookie}");
        assert_eq!(cookie.ends_with("; Secure"), secure, "{cookie}");
    }
    let foreign = browser.ask(Method::POST, "/ui/sign-in").header("sec-fetch-site", "cross-site");
    assert_eq!(browser.send(foreign.form(&[("key", admin.expose())])).await.status, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_act_needs_the_seal_of_its_session() {
    let database = TestDatabase::unlimited().await;
    let admin = key(&database, "boss", &[Scope::Admin]).await;
    let id = database.request_in("direct", "processing").await;
    let api = pages(&database, PageOptions::default()).await;
    let (one, other) = (Browser::signed_in(&api, &admin).await, Browser::signed_in(&api, &admin).await);
    let others_seal = other.get("/ui").await.seal();
    let path = format!("/ui/requests/{id}/cancel");
    for fields in [vec![], vec![("seal", "")], vec![("seal", &*others_seal)]] {
        let refused = one.send(one.ask(Method::POST, &path).form(&fields)).await;
        assert_eq!(refused.status, 403, "{fields:?}");
        refused.says("older than this session");
    }
    assert_eq!(database.status(RequestId(id)).await, "processing");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_keys_are_limited() {
    let database = TestDatabase::new().await;
    let admin = key(&database, "boss", &[Scope::Admin]).await;
    let api = pages(&database, PageOptions::default()).await;
    let mut browser = Browser::of(&api);
    let mut statuses = Vec::new();
    for _ in 0..21 {
        statuses.push(browser.sign_in("tg_wrong").await.status.as_u16());
    }
    assert_eq!((statuses[19], statuses[20]), (403, 429));
    assert_eq!(browser.sign_in(admin.expose()).await.status, 429);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_keys_only_browsers_of_this_machine_may_look_and_act() {
    let database = TestDatabase::unlimited().await;
    let id = database.request_in("direct", "processing").await;
    let api = pages(&database, PageOptions::default()).await;
    let browser = Browser::of(&api);
    browser.get("/ui").await.says("anyone on this machine");
    for header in [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site"), ("host", "evil.example")] {
        let shown = browser.send(browser.ask(Method::GET, "/ui").header(header.0, header.1)).await;
        assert_eq!(shown.status, 403, "{header:?}");
    }
    let done = browser.act("/ui/gates", &format!("/ui/requests/{id}/fail"), &[("reason", "a test")]).await;
    assert_eq!(done.status, 303, "{}", done.html);
    let actor = format!(
        "select e.detail ->> 'on_behalf_of' from tidegate.request_event as e
         where e.request_id = '{id}' and e.cause = 'internal_error'"
    );
    assert_eq!(database.value(&actor).await, "anyone on this machine");
}

#[tokio::test(flavor = "multi_thread")]
async fn visitors_see_pages_where_that_is_configured() {
    let database = TestDatabase::unlimited().await;
    let _ = key(&database, "boss", &[Scope::Admin]).await;
    let id = database.request_in("direct", "processing").await;
    let api = pages(&database, PageOptions { visitors: Visitors::Read, ..PageOptions::default() }).await;
    let visitor = Browser::of(&api);
    for path in PAGES {
        assert_eq!(visitor.get(path).await.status, 200, "{path}");
    }
    assert_eq!(visitor.get(&format!("/ui/requests/{id}/payload")).await.status, 403);
    let seal = visitor.get("/ui").await.seal();
    let refused =
        visitor.send(visitor.ask(Method::POST, &format!("/ui/requests/{id}/cancel")).form(&[("seal", &*seal)])).await;
    assert_eq!(refused.status, 403);
    assert_eq!(database.status(RequestId(id)).await, "processing");
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

/// Follows a job to its end; returns its page.
async fn ended(browser: &Browser<'_>, path: &str) -> Shown {
    eventually("the job has ended", || async { !browser.get(path).await.headers.contains_key("refresh") }).await;
    browser.get(path).await
}

#[tokio::test(flavor = "multi_thread")]
async fn many_are_counted_first_and_then_cancelled_or_redriven() {
    let database = TestDatabase::unlimited().await;
    for _ in 0..2100 {
        database.submit("input_proof").await;
    }
    let left = database.submit("direct").await;
    let api = pages(&database, PageOptions::default()).await;
    let browser = Browser::of(&api);
    let list = "/ui/requests?kind=input_proof&state=processing";
    browser.get(list).await.says("Cancel all that match");
    let all = [("kind", "input_proof"), ("state", "processing"), ("act", "cancel_all")];
    let live = "select count(*) from tidegate.request where req_status = 'processing'";

    let job = browser.act(list, "/ui/requests/preview", &all).await;
    let counted = ended(&browser, job.location()).await;
    counted.says("Cancel 2\u{202f}100");
    assert_eq!(database.number(live).await, 2101, "nothing is done by a count");
    let job = browser.act(list, "/ui/requests/start", &all).await;
    let page = ended(&browser, job.location()).await;
    page.says("Ended.");
    assert_eq!(database.number(live).await, 1);
    assert_eq!(database.status(left).await, "processing");

    // What a filter cannot be given to is not done to more than it shows.
    let refused =
        browser.act(list, "/ui/requests/start", &[("executed", "no"), ("act", "cancel_all"), ("kind", "direct")]).await;
    assert_eq!(refused.status, 422);
    let nothing = browser.act(list, "/ui/requests/preview", &[("act", "cancel")]).await;
    nothing.says("no request was chosen");

    // Some of them are submitted again, also those that were cancelled, because they are named.
    let ids = database.column("select id from tidegate.request where kind = 'input_proof' order by id limit 3").await;
    let chosen: Vec<_> = ids.iter().map(|id| ("id", &**id)).chain([("act", "redrive")]).collect();
    let job = browser.act(list, "/ui/requests/preview", &chosen).await;
    ended(&browser, job.location()).await.says("Submit 3 again");
    let job = browser.act(list, "/ui/requests/start", &chosen).await;
    ended(&browser, job.location()).await.says("Ended.");
    assert_eq!(database.number("select count(*) from tidegate.redrive").await, 3);
    assert_eq!(browser.get("/ui/jobs/999").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_waits_hears_of_a_cancel_of_many() {
    let database = TestDatabase::unlimited().await;
    let ids = [database.submit("direct").await, database.submit("direct").await];
    // Without the work of a node, and with polls that fail: only the page can tell its waiting callers.
    database.execute("alter function tidegate.moved_since rename to moved_since_itself").await;
    let node = Node::of_store(database.store.clone(), NodeOptions::default());
    let router = node.router().merge(node.pages(PageOptions::default()));
    let api = Api::serve(router, ConnectionOptions::default()).await;
    let browser = Browser::of(&api);
    for (id, act) in ids.iter().zip(["cancel", "cancel_all"]) {
        let mut waiter = node.waiters().wait_for(*id).unwrap();
        let id = id.to_string();
        let fields = [("id", &*id), ("kind", "direct"), ("act", act)];
        let started = browser.act("/ui/gates", "/ui/requests/start", &fields).await;
        assert_eq!(started.status, 303, "{}", started.html);
        let told = tokio::time::timeout(std::time::Duration::from_secs(30), waiter.ended()).await;
        assert!(told.is_ok(), "{act}: it was not told");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_request_can_be_failed_redriven_and_resolved() {
    let database = TestDatabase::unlimited().await;
    let api = pages(&database, PageOptions::default()).await;
    let browser = Browser::of(&api);
    let sent = database.request_in("direct", "tx_in_flight").await;
    let path = format!("/ui/requests/{sent}");
    let failed = browser.act("/ui/gates", &format!("{path}/fail"), &[("reason", "the rail is down")]).await;
    browser.get(failed.location()).await.says("It has failed.");
    let page = browser.get(&path).await;
    page.says("the rail is down");
    page.says("unknown");
    let refused = browser.act("/ui/gates", &format!("{path}/redrive"), &[]).await;
    assert_eq!(refused.status, 422);
    refused.says("may have been executed");
    let resolved =
        browser.act("/ui/gates", &format!("{path}/resolve"), &[("executed", "no"), ("note", "by phone")]).await;
    browser.get(resolved.location()).await.says("What is known of it is on record.");
    let redriven = browser.act("/ui/gates", &format!("{path}/redrive"), &[]).await;
    let new = browser.get(redriven.location()).await;
    new.says("It was submitted again.");
    new.says(&sent.to_string());
    let twice = browser.act("/ui/gates", &format!("{path}/redrive"), &[]).await;
    assert_eq!(twice.status, 422);
    let cannot = browser.act("/ui/gates", &format!("{path}/cancel"), &[]).await;
    cannot.says("it cannot be cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_gates_and_pauses_are_changed_with_the_sentence_of_a_refusal() {
    let database = TestDatabase::new().await;
    let api = pages(&database, PageOptions::default()).await;
    let browser = Browser::of(&api);
    let set = async |setting: &str, value: &str| {
        browser.act("/ui/gates", "/ui/settings", &[("setting", setting), ("value", value), ("of", "direct")]).await
    };
    assert_eq!(set("tx.per_seconds", "12").await.status, 303);
    assert_eq!(database.store.config_get(Some("tx.per_seconds")).await.unwrap().len(), 1);
    let refused = set("direct.tx.attempts", "1000").await;
    assert_eq!(refused.status, 422);
    refused.says("W_retry ≤ deadline − margin does not hold");
    browser.get("/ui/settings?name=tx").await.says("anyone on this machine");

    for (fields, check) in [
        (
            vec![("gate", "tx"), ("act", "close")],
            "select state = 'too_many_requests' and forced from tidegate.gate where name = 'tx'",
        ),
        (vec![("gate", "tx"), ("act", "release")], "select not forced from tidegate.gate where name = 'tx'"),
        (
            vec![("gate", "tx"), ("act", "marks"), ("high_water", "77"), ("low_water", "7")],
            "select (high_water, low_water) = (77, 7) from tidegate.gate where name = 'tx'",
        ),
        (
            vec![("act", "quota"), ("sort", "submitter"), ("name", "ann"), ("high_water", "5")],
            "select high_water = 5 from tidegate.gate where name = 'submitter ann'",
        ),
        (
            vec![("gate", "submitter ann"), ("act", "remove")],
            "select not exists (select from tidegate.gate where name = 'submitter ann')",
        ),
    ] {
        let done = browser.act("/ui/gates", "/ui/gates", &fields).await;
        assert_eq!(done.status, 303, "{fields:?}: {}", done.html);
        assert_eq!(database.value(&format!("select ({check})::text")).await, "true", "{fields:?}");
    }
    for (word, paused) in [("pause", "true"), ("resume", "false")] {
        browser.act("/ui/gates", "/ui/workers", &[("queue", "tx"), ("act", word)]).await;
        assert_eq!(database.value("select paused::text from tidegate.queue where name = 'tx'").await, paused);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_searches_and_recovers_and_its_runs_are_on_record() {
    let database = TestDatabase::unlimited().await;
    let id = database.request_in("direct", "processing").await;
    database.execute("delete from pgmq.q_tx").await;
    let api = pages(&database, PageOptions::default()).await;
    let browser = Browser::of(&api);
    browser.act("/ui/gates", "/ui/doctor", &[("act", "search")]).await;
    ended(&browser, "/ui/doctor").await.says("live_request_without_message: 1");
    eventually("the first page has it", || async {
        browser.get("/ui").await.html.contains("1 invariants do not hold")
    })
    .await;
    browser.act("/ui/gates", "/ui/doctor", &[("act", "dry_run")]).await;
    ended(&browser, "/ui/doctor").await.says("1 without a message, would be rebuilt");
    assert_eq!(database.number("select count(*) from pgmq.q_tx").await, 0);
    browser.act("/ui/gates", "/ui/doctor", &[("act", "recover")]).await;
    let page = ended(&browser, "/ui/doctor").await;
    page.says("1 without a message, rebuilt");
    page.says("anyone on this machine");
    assert_eq!(database.number("select count(*) from pgmq.q_tx").await, 1);
    assert_eq!(database.status(RequestId(id)).await, "processing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_page_sends_its_sections_when_they_change_and_ends_with_the_session() {
    let database = TestDatabase::unlimited().await;
    let admin = key(&database, "boss", &[Scope::Admin]).await;
    let api = pages(&database, PageOptions::default()).await;
    let browser = Browser::signed_in(&api, &admin).await;
    let mut stream = browser.ask(Method::GET, "/ui/live/gates").send().await.unwrap();
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    let mut received = String::new();
    let mut read_until = async |words: &str| {
        while !received.contains(words) {
            let chunk =
                stream.chunk().await.unwrap().unwrap_or_else(|| panic!("it has ended before {words}: {received}"));
            received.push_str(&String::from_utf8_lossy(&chunk));
        }
        received.clear();
    };
    read_until("id=\"gates\"").await;
    database.execute("select tidegate.gate_force('tx', 'too_many_requests')").await;
    read_until("held by hand").await;
    database.execute("delete from tidegate.page_session").await;
    while stream.chunk().await.unwrap().is_some() {}
}

#[tokio::test(flavor = "multi_thread")]
async fn viewers_share_one_look_a_second() {
    let database = TestDatabase::unlimited().await;
    // Counts the looks, whatever becomes of their transactions: each counts the messages of the queues once.
    database
        .execute(
            "create sequence public.looks;
             do $do$
             declare
               v_counts regproc := 'tidegate.queue_counts';
             begin
               execute replace(pg_get_functiondef(v_counts), 'queue_counts()', 'queue_counts_itself()');
               execute format(
                 'create or replace function tidegate.queue_counts() returns %s language sql volatile as $$
                    select c.* from (select nextval(''public.looks'')) as n, tidegate.queue_counts_itself() as c
                  $$', pg_get_function_result(v_counts)
               );
             end;
             $do$",
        )
        .await;
    let api = pages(&database, PageOptions::default()).await;
    let browser = Browser::of(&api);
    let began = std::time::Instant::now();
    for _ in 0..3 {
        let shown = futures_util::future::join_all((0..30).map(|_| browser.get("/ui"))).await;
        assert!(shown.iter().all(|page| page.status == 200));
    }
    let looks = database.number("select last_value from public.looks").await;
    let seconds = i64::try_from(began.elapsed().as_secs()).unwrap();
    assert!((1..=seconds + 1).contains(&looks), "{looks} looks in {seconds} s");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_away_leaves_the_last_figures_and_says_so() {
    let database = TestDatabase::unlimited().await;
    let api = pages(&database, PageOptions::default()).await;
    let browser = Browser::of(&api);
    browser.get("/ui").await.says("The last hour");
    let mut stream = browser.ask(Method::GET, "/ui/live/now").send().await.unwrap();
    database.cut().await;
    let mut received = String::new();
    while !received.contains("These are the figures of") {
        received.push_str(&String::from_utf8_lossy(&stream.chunk().await.unwrap().unwrap()));
    }
    assert_eq!(browser.get("/ui/requests").await.status, 503);
    database.restore().await;
    eventually("it is shown again", || async { browser.get("/ui/requests").await.status == 200 }).await;
}
