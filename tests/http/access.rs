//! Which calls does a key allow, and what is a caller without a valid key answered?

mod reading_keys;
mod submitters;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tidegate::internals::api_key::{ApiKey, Scope};
use tidegate_node::{Keys, Node, NodeOptions};

use super::{Answer, Api, answer};
use crate::support::TestDatabase;

/// A key that works at once on nodes that start after it.
pub(super) async fn key(database: &TestDatabase, name: &str, scopes: &[Scope]) -> ApiKey {
    key_of(database, name, scopes, name).await
}

async fn key_of(database: &TestDatabase, name: &str, scopes: &[Scope], submitter: &str) -> ApiKey {
    let key = ApiKey::generate().unwrap();
    let created = database.store.key_create(&key, name, scopes, Some(submitter)).await.unwrap();
    assert!(created.created);
    key
}

/// A node as one caller meets it.
pub(super) struct As<'a> {
    api: &'a Api,
    key: String,
}

impl Api {
    pub(super) fn bearing(&self, key: &ApiKey) -> As<'_> {
        As { api: self, key: key.expose().to_owned() }
    }
}

impl As<'_> {
    pub(super) fn ask(&self, method: Method, path: &str) -> RequestBuilder {
        let asking = self.api.client.request(method, self.api.url(path));
        asking.bearer_auth(&self.key)
    }

    pub(super) async fn get(&self, path: &str) -> Answer {
        answer(self.ask(Method::GET, path)).await
    }

    pub(super) async fn delete(&self, path: &str) -> Answer {
        answer(self.ask(Method::DELETE, path)).await
    }

    pub(super) async fn post(&self, path: &str, body: &Value) -> Answer {
        answer(self.ask(Method::POST, path).json(body)).await
    }

    pub(super) async fn post_with_key(&self, path: &str, key: &str, body: &Value) -> Answer {
        let posting = self.ask(Method::POST, path).json(body);
        answer(posting.header("idempotency-key", key)).await
    }

    /// Submits a request that must be taken; returns its path.
    pub(super) async fn submit(&self, kind: &str) -> String {
        let taken = self.post(&format!("/v1/{kind}"), &json!({})).await;
        assert_eq!(taken.status, 202, "{taken:?}");
        taken.header("location").to_owned()
    }
}

fn challenge(refused: &Answer) -> &str {
    refused.header("www-authenticate")
}

const SOME_JOB: &str = "/v1/direct/01890000-0000-7000-8000-000000000000";

#[tokio::test(flavor = "multi_thread")]
async fn without_any_key_calls_need_none() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;

    let path = api.submit("direct").await;

    assert_eq!(api.get(&path).await.status, 202);
    let showing_one_all_the_same = api.bearing(&ApiKey::generate().unwrap());
    assert_eq!(showing_one_all_the_same.get(&path).await.status, 202);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_listens_beyond_loopback_never_serves_without_a_key() {
    let database = TestDatabase::new().await;
    let api = Api::of_node(&Node::of_store(database.store.clone(), NodeOptions::default().keys(Keys::Required))).await;

    let refused = api.post("/v1/direct", &json!({})).await;

    refused.assert_problem(401, "unauthenticated");
    assert_eq!(challenge(&refused), "Bearer realm=\"tidegate\"");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_call_needs_its_scope_and_admin_has_them_all() {
    let database = TestDatabase::new().await;
    let submit = key(&database, "submits", &[Scope::Submit]).await;
    let respond = key(&database, "responds", &[Scope::Respond]).await;
    let admin = key(&database, "operates", &[Scope::Admin]).await;
    let api = Api::of(&database).await;
    let responses = format!("{SOME_JOB}/responses");

    for (method, path, scope) in [
        (Method::POST, "/v1/direct", "submit"),
        (Method::GET, SOME_JOB, "submit"),
        (Method::DELETE, SOME_JOB, "submit"),
        (Method::POST, "/v1/responses", "respond"),
        (Method::POST, responses.as_str(), "respond"),
    ] {
        let without = api.client.request(method.clone(), api.url(path)).json(&json!({}));
        answer(without).await.assert_problem(401, "unauthenticated");
        for (key, holds) in [(&submit, scope == "submit"), (&respond, scope == "respond"), (&admin, true)] {
            let asked = answer(api.bearing(key).ask(method.clone(), path).json(&json!({"response": 1}))).await;
            if holds {
                assert!(![401, 403].contains(&asked.status.as_u16()), "{asked:?}");
            } else {
                asked.assert_problem(403, "insufficient_scope");
                assert!(asked.detail().contains(scope), "{asked:?}");
                assert!(challenge(&asked).contains(&format!("scope=\"{scope}\"")));
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_passes_closed_gates_only_with_the_scope_for_it() {
    let database = TestDatabase::new().await;
    let submit = key(&database, "submits", &[Scope::Submit, Scope::Respond]).await;
    let outbox = key(&database, "outbox", &[Scope::SubmitAccepted]).await;
    let admin = key(&database, "operates", &[Scope::Admin]).await;
    database.execute("select tidegate.gate_force('tx', 'too_many_requests')").await;
    let api = Api::of(&database).await;

    for (key, holds) in [(&submit, false), (&outbox, true), (&admin, true)] {
        for path in ["/v1/direct", "/v1/direct/batch"] {
            let posting = || api.bearing(key).ask(Method::POST, path).json(&json!([1]));
            let plain = answer(posting().header("idempotency-key", "k")).await;
            plain.assert_problem(429, "gate_closed");
            let asked = answer(posting().header("tidegate-admission", "accepted")).await;
            if holds {
                assert_eq!(asked.status, 202, "{asked:?}");
            } else {
                asked.assert_problem(403, "insufficient_scope");
                assert!(challenge(&asked).contains("scope=\"submit-accepted\""), "{asked:?}");
            }
        }
    }
    assert_eq!(database.number("select count(*) from tidegate.request").await, 4);

    // It makes the other calls of submitters, and no more.
    let path = database
        .value("select '/v1/direct/' || id from tidegate.request where submitter = 'outbox' order by id limit 1")
        .await;
    assert_eq!(api.bearing(&outbox).get(&path).await.status, 202);
    for path in ["/v1/responses", "/v1/admin/queues/tx/pause"] {
        let refused = api.bearing(&outbox).post(path, &json!({"response": 1})).await;
        refused.assert_problem(403, "insufficient_scope");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn health_needs_no_key() {
    let database = TestDatabase::new().await;
    key(&database, "any", &[Scope::Admin]).await;
    let api = Api::of(&database).await;

    for path in ["/livez", "/readyz"] {
        assert_eq!(api.get(path).await.status, 200, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn strange_credentials_are_refused_and_never_echoed() {
    let database = TestDatabase::new().await;
    let known = key(&database, "known", &[Scope::Submit]).await;
    let known = known.expose();
    let api = Api::of(&database).await;
    let last = if known.ends_with('0') { "1" } else { "0" };
    let wrong_secret = format!("{}{last}", &known[..known.len() - 1]);
    let stranger = ApiKey::generate().unwrap();

    for value in [
        String::new(),
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        "Bearer \u{fc}".to_owned(),
        known.to_owned(),
        format!("Basic {known}"),
        format!("Bearer {known}x"),
        format!("Bearer {known},{known}"),
        format!("Bearer {}", known.to_uppercase()),
        format!("Bearer {wrong_secret}"),
        format!("Bearer {}", stranger.expose()),
        format!("Bearer {}", "x".repeat(30_000)),
        "Bearer tg_'; drop table tidegate.api_key; --".to_owned(),
    ] {
        let asking = api.client.get(api.url(SOME_JOB));
        let refused = answer(asking.header("authorization", &value)).await;
        refused.assert_problem(401, "unauthenticated");
        assert!(challenge(&refused).contains("error=\"invalid_token\""), "{value}");
        assert!(!format!("{refused:?}").contains("tg_'"), "{refused:?}");
    }
    let twice = api.client.get(api.url(SOME_JOB));
    let twice = twice.bearer_auth(known).bearer_auth(known);
    answer(twice).await.assert_problem(401, "unauthenticated");
    // The scheme's case does not matter, nor do spaces around the key.
    for scheme in ["bearer", "BEARER", "Bearer  "] {
        let asking = api.client.get(api.url(SOME_JOB));
        let asked = answer(asking.header("authorization", format!("{scheme} {known}"))).await;
        asked.assert_problem(404, "unknown_request");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_is_refused_while_it_sends_a_body_gets_the_answer() {
    let database = TestDatabase::new().await;
    key(&database, "any", &[Scope::Submit]).await;
    let api = Api::of(&database).await;

    let body = format!("\"{}\"", "x".repeat(900_000));
    let refused = api.post_text("/v1/direct", body).await;

    refused.assert_problem(401, "unauthenticated");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_keys_web_pages_of_other_sites_are_refused() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    let pausing = || api.client.post(api.url("/v1/admin/queues/tx/pause"));

    for (name, value) in
        [("origin", "https://evil.example"), ("host", "evil.example"), ("sec-fetch-site", "cross-site")]
    {
        let refused = answer(pausing().header(name, value)).await;
        refused.assert_problem(403, "foreign_origin");
    }
    assert_eq!(database.number("select count(*) from tidegate.queue where paused").await, 0);

    assert_eq!(answer(pausing()).await.status, 200);
    let own = answer(pausing().header("origin", api.url(""))).await;
    assert_eq!(own.status, 200);
}
