//! Who may see the pages and act on them, for how long.

use reqwest::{Method, header::SET_COOKIE};
use tidegate::{
    internals::api_key::{ApiKey, Scope},
    request::RequestId,
};
use tidegate_node::{PageOptions, Visitors};

use super::{super::access::key, Browser, PAGES, pages};
use crate::support::{TestDatabase, eventually};

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
