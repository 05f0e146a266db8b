//! Who may do what, and who sees what.

use std::time::{Duration, Instant};

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use sqlx::{PgConnection, postgres::PgPoolOptions};
use tidegate::internals::{
    api_key::{ApiKey, Scope},
    store::Store,
};
use tidegate_node::{HttpOptions, Keys, Node, NodeOptions};

use super::{Answer, Api, answer, let_go};
use crate::support::{TestDatabase, eventually, until_blocked};

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
async fn a_key_and_its_revocation_hold_on_every_running_node_within_a_second() {
    let database = TestDatabase::new().await;
    let nodes = [Api::of(&database).await, Api::of(&database).await];
    for node in &nodes {
        assert_eq!(node.get(SOME_JOB).await.status, 404);
    }

    let first = key(&database, "first", &[Scope::Submit]).await;
    let made = Instant::now();
    for node in &nodes {
        // What is asked a second later meets a node that knows.
        loop {
            let asked_after = made.elapsed();
            if node.get(SOME_JOB).await.status == 401 {
                break;
            }
            assert!(asked_after < Duration::from_secs(1));
        }
        assert_eq!(node.bearing(&first).get(SOME_JOB).await.status, 404);
    }

    database.store.key_revoke(first.id()).await.unwrap();
    let revoked = Instant::now();
    for node in &nodes {
        loop {
            let asked_after = revoked.elapsed();
            let asked = node.bearing(&first).get(SOME_JOB).await;
            if asked.status == 401 {
                break;
            }
            assert_eq!(asked.status, 404);
            assert!(asked_after < Duration::from_secs(1));
        }
        // No key is live, and calls still need one.
        node.get(SOME_JOB).await.assert_problem(401, "unauthenticated");
    }
    let late = Api::of(&database).await;
    late.get(SOME_JOB).await.assert_problem(401, "unauthenticated");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_replaced_without_a_gap() {
    let database = TestDatabase::new().await;
    let old = key_of(&database, "shop 1", &[Scope::Submit], "shop").await;
    let api = Api::of(&database).await;
    let path = api.bearing(&old).submit("direct").await;
    let taken = api.bearing(&old).post_with_key("/v1/direct", "k", &json!(1)).await;

    let new = key_of(&database, "shop 2", &[Scope::Submit], "shop").await;
    eventually("the node knows the new key", || async { api.bearing(&new).get(&path).await.status == 202 }).await;
    database.store.key_revoke(old.id()).await.unwrap();
    eventually("the node knows of the revocation", || async { api.bearing(&old).get(&path).await.status == 401 }).await;

    assert_eq!(api.bearing(&new).get(&path).await.status, 202);
    let replayed = api.bearing(&new).post_with_key("/v1/direct", "k", &json!(1)).await;
    assert_eq!(replayed.body["job_id"], taken.body["job_id"]);
    assert_eq!(api.bearing(&new).delete(&path).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_visible_only_to_the_keys_of_its_submitter() {
    let database = TestDatabase::new().await;
    let alice = key(&database, "alice", &[Scope::Submit, Scope::Respond]).await;
    let other_alice = key_of(&database, "alice's phone", &[Scope::Submit], "alice").await;
    let bob = key(&database, "bob", &[Scope::Submit, Scope::Respond]).await;
    let admin = key(&database, "admin", &[Scope::Admin]).await;
    let nodes = [Api::of(&database).await, Api::of(&database).await];
    let path = nodes[0].bearing(&alice).submit("direct").await;

    for node in &nodes {
        for key in [&alice, &other_alice, &admin] {
            assert_eq!(node.bearing(key).get(&path).await.status, 202);
        }
        let bob = node.bearing(&bob);
        let unseen = bob.get(&path).await;
        unseen.assert_problem(404, "unknown_request");
        bob.delete(&path).await.assert_problem(404, "unknown_request");
        // What is not there is told in the same words.
        let id = path.rsplit('/').next().unwrap();
        let missing = bob.get(SOME_JOB).await;
        assert_eq!(
            unseen.detail().replace(id, "ID"),
            missing.detail().replace(SOME_JOB.rsplit('/').next().unwrap(), "ID")
        );
    }

    assert_eq!(database.number("select count(*) from tidegate.request where req_status = 'failure'").await, 0);
    // A downstream answers whosever request it is.
    let early = nodes[1].bearing(&bob).post(&format!("{path}/responses"), &json!({"response": 1})).await;
    assert_eq!(early.body["outcome"], "early", "{early:?}");
    assert_eq!(nodes[1].bearing(&admin).delete(&path).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_of_a_kind_with_shared_keys_is_polled_by_every_submitter_and_cancelled_by_its_own() {
    let database = TestDatabase::new().await;
    database.execute("update tidegate.kind set key_scope = 'kind' where name = 'direct'").await;
    let alice = key(&database, "alice", &[Scope::Submit]).await;
    let bob = key(&database, "bob", &[Scope::Submit]).await;
    let api = Api::of(&database).await;
    let (alice, bob) = (api.bearing(&alice), api.bearing(&bob));
    let first = alice.post_with_key("/v1/direct", "k", &json!(1)).await;
    let replayed = bob.post_with_key("/v1/direct", "k", &json!(1)).await;
    assert_eq!(replayed.header("idempotency-replayed"), "true");
    assert_eq!(replayed.body["job_id"], first.body["job_id"]);
    let other = bob.post_with_key("/v1/direct", "k", &json!(2)).await;
    other.assert_problem(422, "idempotency_key_reused");

    let path = replayed.header("location").to_owned();
    let id = path.rsplit('/').next().unwrap();
    for polled in [path.clone(), format!("/v1/direct?id={id}&id={id}")] {
        assert_eq!(bob.get(&polled).await.status, 202, "{polled}");
    }
    bob.get(&format!("/v1/input-proof/{id}")).await.assert_problem(404, "unknown_request");
    bob.delete(&path).await.assert_problem(404, "unknown_request");
    let listed = bob.get("/v1/direct").await;
    assert_eq!(listed.body["requests"], json!([]), "{listed:?}");
    assert_eq!(alice.delete(&path).await.status, 200);
    // It has ended, so the stream of its events has an end.
    let events = bob.ask(Method::GET, &format!("{path}/events")).send().await.unwrap();
    assert_eq!(events.status(), 200);
    assert!(events.text().await.unwrap().contains("cancelled"));
    // Of another kind it is still the submitter's alone.
    let proof = alice.submit("input-proof").await;
    bob.get(&proof).await.assert_problem(404, "unknown_request");
    let events = bob.get(&format!("{proof}/events")).await;
    events.assert_problem(404, "unknown_request");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_from_before_the_first_key_are_the_admins() {
    let database = TestDatabase::new().await;
    let node = Api::of(&database).await;
    let path = node.submit("direct").await;
    let alice = key(&database, "alice", &[Scope::Submit]).await;
    let admin = key(&database, "admin", &[Scope::Admin]).await;
    let node = Api::of(&database).await;

    node.bearing(&alice).get(&path).await.assert_problem(404, "unknown_request");
    assert_eq!(node.bearing(&admin).get(&path).await.status, 202);
}

#[tokio::test(flavor = "multi_thread")]
async fn idempotency_keys_of_two_submitters_are_two_keys() {
    let database = TestDatabase::new().await;
    let alice = key(&database, "alice", &[Scope::Submit]).await;
    // A submitter whose name could be mistaken for another scope of the same key.
    let bob = key(&database, "alice:k", &[Scope::Submit]).await;
    let api = Api::of(&database).await;
    let hers = api.bearing(&alice).post_with_key("/v1/direct", "k", &json!({"hers": 1})).await;

    let his = api.bearing(&bob).post_with_key("/v1/direct", "k", &json!({"his": 2})).await;
    let same_payload = api.bearing(&bob).post_with_key("/v1/direct", "l", &json!({"hers": 1})).await;

    for taken in [&his, &same_payload] {
        assert_eq!(taken.status, 202, "{taken:?}");
        assert_eq!(taken.header("idempotency-replayed"), "");
        assert_ne!(taken.body["job_id"], hers.body["job_id"]);
    }
    assert_eq!(
        database.text("select string_agg(submitter, ',' order by submitter) from tidegate.request").await.unwrap(),
        "alice,alice:k,alice:k"
    );
}

/// Holds every reading of the keys until the session commits.
async fn hold_keys(database: &TestDatabase) -> PgConnection {
    let mut session = database.session().await;
    sqlx::raw_sql("begin; lock table tidegate.api_key in access exclusive mode").execute(&mut session).await.unwrap();
    session
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_unknown_keys_shares_one_statement() {
    let database = TestDatabase::new().await;
    let known = key(&database, "known", &[Scope::Submit]).await;
    let api = Api::of(&database).await;
    let held = hold_keys(&database).await;

    let mut asking: Vec<_> = (0..100)
        .map(|_| {
            let stranger = ApiKey::generate().unwrap();
            let asking = api.bearing(&stranger).ask(Method::GET, SOME_JOB);
            tokio::spawn(answer(asking))
        })
        .collect();
    let knowing = tokio::spawn(answer(api.bearing(&known).ask(Method::GET, SOME_JOB)));
    until_blocked(&database, 1).await;
    // Malformed ones do not ask the database either.
    for _ in 0..20 {
        let malformed = api.client.get(api.url(SOME_JOB)).bearer_auth("tg_");
        asking.push(tokio::spawn(answer(malformed)));
    }
    let health = api.get("/livez").await;
    assert_eq!(health.status, 200);
    let blocked = "select count(*) from pg_stat_activity
         where datname = current_database() and wait_event_type = 'Lock'";
    assert_eq!(database.number(blocked).await, 1);
    let_go(held).await;

    for asked in asking {
        asked.await.unwrap().assert_problem(401, "unauthenticated");
    }
    assert_eq!(knowing.await.unwrap().status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_who_leaves_does_not_stop_the_reading_for_the_others() {
    let database = TestDatabase::new().await;
    let known = key(&database, "known", &[Scope::Submit]).await;
    let api = Api::of(&database).await;
    let held = hold_keys(&database).await;

    let leaving = tokio::spawn(answer(api.bearing(&known).ask(Method::GET, SOME_JOB)));
    until_blocked(&database, 1).await;
    leaving.abort();
    assert!(leaving.await.unwrap_err().is_cancelled());
    // Time for the server to see it leave, and for the others to come.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let staying: Vec<_> =
        (0..10).map(|_| tokio::spawn(answer(api.bearing(&known).ask(Method::GET, SOME_JOB)))).collect();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let blocked = "select count(*) from pg_stat_activity
         where datname = current_database() and wait_event_type = 'Lock'";
    assert_eq!(database.number(blocked).await, 1);
    let_go(held).await;

    for asked in staying {
        assert_eq!(asked.await.unwrap().status, 404);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn when_the_keys_cannot_be_read_the_answer_is_503_and_not_401() {
    let pool = PgPoolOptions::new()
        .acquire_timeout(Duration::from_millis(100))
        .connect_lazy("postgres://absent@127.0.0.1:1/nowhere")
        .unwrap();
    let api = Api::start(Store::new(pool), &HttpOptions::default()).await;
    let key = ApiKey::generate().unwrap();

    for asked in [api.get(SOME_JOB).await, api.bearing(&key).get(SOME_JOB).await] {
        asked.assert_problem(503, "database_unavailable");
    }

    let database = TestDatabase::new().await;
    let known = self::key(&database, "known", &[Scope::Submit]).await;
    let api = Api::of(&database).await;
    assert_eq!(api.bearing(&known).get(SOME_JOB).await.status, 404);
    database.cut().await;
    eventually("what the node knew is too old", || async {
        let stranger = ApiKey::generate().unwrap();
        api.bearing(&stranger).get(SOME_JOB).await.status == 503
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_follows_more_keys_than_one_statement_brings() {
    let database = TestDatabase::new().await;
    database
        .execute(
            "select tidegate.key_create(lpad(to_hex(n), 16, '0'), 'key ' || n, sha256(n::text::bytea), '{submit}')
             from generate_series(1, 2500) as n",
        )
        .await;
    let last = key(&database, "last", &[Scope::Submit]).await;
    let api = Api::of(&database).await;

    assert_eq!(api.bearing(&last).get(SOME_JOB).await.status, 404);
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
