//! Do submissions that arrive together share a statement, and does none of them pay for what is wrong with another?

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures_util::future::join_all;
use reqwest::RequestBuilder;
use serde_json::json;
use sqlx::PgConnection;
use tidegate::internals::api_key::{ApiKey, Scope};
use tidegate_node::HttpOptions;
use tokio::task::JoinHandle;

use super::{Answer, Api, access::key, answer, hold_submissions, let_go, until_submissions_wait};
use crate::support::{TestDatabase, eventually, race::Session};

/// How many transactions the requests came in.
async fn transactions(database: &TestDatabase) -> i64 {
    database.number("select count(distinct xmin::text) from tidegate.request").await
}

struct Crowd {
    held: PgConnection,
    first: JoinHandle<Answer>,
    rest: Vec<JoinHandle<Answer>>,
}

/// Posts so many requests at once, with the headers of their places; the first one's statement is held until all others are in.
async fn crowd(
    database: &TestDatabase,
    size: usize,
    with_headers: fn(RequestBuilder, usize) -> RequestBuilder,
) -> (Arc<Api>, Crowd) {
    let options = HttpOptions { concurrency_limit: size, ..HttpOptions::default() };
    let api = Arc::new(Api::start(database.store.clone(), &options).await);
    let post = |place: usize| {
        let api = Arc::clone(&api);
        tokio::spawn(async move {
            loop {
                let posting = api.posting("/v1/direct", &json!({ "place": place }));
                let answer = answer(with_headers(posting, place)).await;
                // The probe below may have been where this wanted to be.
                if answer.body["code"] != "overloaded" {
                    return answer;
                }
            }
        })
    };
    let held = hold_submissions(database).await;
    let first = post(0);
    until_submissions_wait(database, 1).await;
    let rest = (1..size).map(post).collect();
    eventually("every place is taken", || async { api.get("/v1/direct/x").await.status == 503 }).await;
    (api, Crowd { held, first, rest })
}

/// A key for each place.
fn keyed(posting: RequestBuilder, place: usize) -> RequestBuilder {
    posting.header("idempotency-key", format!("k{place}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn submissions_that_arrive_during_a_statement_share_the_next() {
    let database = TestDatabase::new().await;
    let (_api, crowd) = crowd(&database, 200, keyed).await;

    let_go(crowd.held).await;

    let mut ids = HashSet::new();
    for answer in join_all(crowd.rest.into_iter().chain([crowd.first])).await {
        let answer = answer.unwrap();
        assert_eq!(answer.status, 202, "{answer:?}");
        ids.insert(answer.body["job_id"].to_string());
    }
    assert_eq!(ids.len(), 200);
    assert_eq!(database.number("select count(*) from tidegate.request").await, 200);
    let transactions = transactions(&database).await;
    assert!(transactions <= 10, "{transactions} transactions for 200 requests");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_reused_key_among_two_hundred_costs_its_owner_only() {
    let database = TestDatabase::new().await;
    Api::of(&database).await.post_with_key("/v1/direct", "k77", &json!("another payload")).await;
    let (_api, crowd) = crowd(&database, 200, keyed).await;

    let_go(crowd.held).await;

    for (place, answer) in join_all([crowd.first].into_iter().chain(crowd.rest)).await.into_iter().enumerate() {
        let answer = answer.unwrap();
        if place == 77 {
            answer.assert_problem(422, "idempotency_key_reused");
        } else {
            assert_eq!(answer.status, 202, "{place}: {answer:?}");
            let id = answer.body["job_id"].as_str().unwrap();
            // No caller got the request of another.
            let payload = format!("select payload ->> 'place' from tidegate.request where id = '{id}'");
            assert_eq!(database.text(&payload).await.unwrap(), place.to_string());
        }
    }
    assert_eq!(database.number("select count(*) from tidegate.request").await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_of_a_group_has_its_own_callback_and_a_refused_one_costs_its_owner_only() {
    const URL: &str = "https://hooks.example.com/done";
    let database = TestDatabase::new().await;
    database.store.webhook_host_add("hooks.example.com", false).await.unwrap();
    let (_api, crowd) = crowd(&database, 21, |posting, place| match place {
        20 => posting.header("tidegate-callback-url", "https://elsewhere.example/"),
        place if place % 2 == 1 => posting.header("tidegate-callback-url", format!("{URL}?{place}")),
        _ => posting,
    })
    .await;

    let_go(crowd.held).await;

    for (place, answer) in join_all([crowd.first].into_iter().chain(crowd.rest)).await.into_iter().enumerate() {
        let answer = answer.unwrap();
        match place {
            20 => answer.assert_problem(422, "callback_refused"),
            _ => assert_eq!(answer.status, 202, "{place}: {answer:?}"),
        }
    }
    let stored = "select concat_ws(' ', payload ->> 'place', callback_url) from tidegate.request
                  order by (payload ->> 'place')::integer";
    let expected = |place: usize| if place % 2 == 1 { format!("{place} {URL}?{place}") } else { place.to_string() };
    assert_eq!(database.column(stored).await, (0..20).map(expected).collect::<Vec<_>>());
    let transactions = transactions(&database).await;
    assert!(transactions <= 8, "{transactions} transactions for 20 requests");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_unstorable_payload_in_a_group_costs_its_owner_only() {
    let database = TestDatabase::new().await;
    let api = Arc::new(Api::of(&database).await);
    let held = hold_submissions(&database).await;
    let post = |body: String| {
        let api = Arc::clone(&api);
        tokio::spawn(async move { api.post_text("/v1/direct", body).await })
    };
    let first = post("0".to_owned());
    until_submissions_wait(&database, 1).await;
    let bad = post("\"\\u0000\"".to_owned());
    let good: Vec<_> = (1..20).map(|n| post(n.to_string())).collect();
    let_go(held).await;

    bad.await.unwrap().assert_problem(422, "unstorable");
    for answer in join_all(good.into_iter().chain([first])).await {
        assert_eq!(answer.unwrap().status, 202);
    }
    assert_eq!(database.number("select count(*) from tidegate.request").await, 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_a_group_repeats_is_one_request_and_one_acceptance() {
    let database = TestDatabase::new().await;
    let (_api, crowd) = crowd(&database, 20, |posting, place| {
        posting.header("idempotency-key", if place == 0 { "first" } else { "same" })
    })
    .await;

    let_go(crowd.held).await;

    let rest: Vec<_> = join_all(crowd.rest).await.into_iter().map(Result::unwrap).collect();
    // They are nineteen payloads, so one is taken and the others are refused, whatever the order.
    let taken = rest.iter().filter(|answer| answer.status == 202).count();
    let refused = rest.iter().filter(|answer| answer.body["code"] == "idempotency_key_reused").count();
    assert_eq!((taken, refused), (1, 18), "{rest:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_of_one_key_and_payload_is_one_request_and_the_rest_replays() {
    let database = TestDatabase::new().await;
    let api = Arc::new(Api::of(&database).await);
    let held = hold_submissions(&database).await;
    let post = |key: &'static str| {
        let api = Arc::clone(&api);
        tokio::spawn(async move { api.post_with_key("/v1/direct", key, &json!({})).await })
    };
    let first = post("first");
    until_submissions_wait(&database, 1).await;
    let rest: Vec<_> = (0..30).map(|_| post("same")).collect();
    let_go(held).await;

    let rest: Vec<_> = join_all(rest).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(first.await.unwrap().status, 202);
    assert!(rest.iter().all(|answer| answer.status == 202), "{rest:?}");
    let ids: HashSet<_> = rest.iter().map(|answer| answer.body["job_id"].to_string()).collect();
    assert_eq!(ids.len(), 1);
    let new = rest.iter().filter(|answer| answer.header("idempotency-replayed").is_empty()).count();
    assert_eq!(new, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_that_leave_do_not_affect_the_others() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    let held = hold_submissions(&database).await;
    let body = r#"{"left": true}"#;
    let request = format!(
        "POST /v1/direct HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    // The first to leave owns the statement that is running.
    let mut leaving = vec![api.raw(&request).await];
    until_submissions_wait(&database, 1).await;
    let staying: Vec<_> = (0..20).map(|_| tokio::spawn(answer(api.posting("/v1/direct", &json!({}))))).collect();
    for _ in 0..20 {
        leaving.push(api.raw(&request).await);
    }
    drop(leaving);
    let_go(held).await;

    for answer in join_all(staying).await {
        assert_eq!(answer.unwrap().status, 202);
    }
    let stayed = "select count(*) from tidegate.request where not payload ? 'left'";
    assert_eq!(database.number(stayed).await, 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_whose_session_is_killed_answers_503_and_the_next_goes_through() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    let held = hold_submissions(&database).await;
    let posting = tokio::spawn(answer(api.posting("/v1/direct", &json!({}))));
    until_submissions_wait(&database, 1).await;

    database
        .execute(
            "select pg_terminate_backend(pid) from pg_stat_activity
             where datname = current_database() and wait_event_type = 'Lock'",
        )
        .await;

    posting.await.unwrap().assert_problem(503, "database_unavailable");
    let_go(held).await;
    api.submit("direct").await;
    assert_eq!(database.number("select count(*) from tidegate.request").await, 1);
}

/// A node that admits so many calls at once, and so many submitters with a key each.
async fn strangers(database: &TestDatabase, limit: usize, count: usize) -> (Arc<Api>, Vec<ApiKey>) {
    let options = HttpOptions { concurrency_limit: limit, ..HttpOptions::default() };
    let mut keys = Vec::new();
    for place in 0..count {
        keys.push(key(database, &format!("s{place}"), &[Scope::Submit]).await);
    }
    (Arc::new(Api::start(database.store.clone(), &options).await), keys)
}

/// Posts with a submitter's key and an idempotency key.
fn posting(api: &Arc<Api>, submitter: &ApiKey, key: &str, place: usize) -> JoinHandle<Answer> {
    let (api, submitter, key) = (Arc::clone(api), submitter.clone(), key.to_owned());
    tokio::spawn(async move {
        let body = json!({ "place": place });
        loop {
            let caller = api.bearing(&submitter);
            let answer = caller.post_with_key("/v1/direct", &key, &body).await;
            if answer.body["code"] != "overloaded" {
                return answer;
            }
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_share_a_statement_and_their_idempotency_keys_are_their_own() {
    let database = TestDatabase::new().await;
    let (api, keys) = strangers(&database, 40, 40).await;
    let held = hold_submissions(&database).await;
    let first = posting(&api, &keys[0], "k", 0);
    until_submissions_wait(&database, 1).await;
    let mut all = vec![first];
    for (place, submitter) in keys.iter().enumerate().skip(1) {
        all.push(posting(&api, submitter, "k", place));
    }
    eventually("every place is taken", || async { api.bearing(&keys[0]).get("/v1/direct/x").await.status == 503 })
        .await;
    let_go(held).await;

    for answer in join_all(all).await {
        let answer = answer.unwrap();
        assert_eq!(answer.status, 202, "{answer:?}");
        assert_eq!(answer.header("idempotency-replayed"), "");
    }
    let owned = "select count(*) from tidegate.request where submitter = 's' || (payload ->> 'place')";
    assert_eq!(database.number(owned).await, 40);
    let transactions = transactions(&database).await;
    assert!(transactions <= 5, "{transactions} transactions");
    // A repeated one is a replay for its submitter.
    let again = posting(&api, &keys[7], "k", 7).await.unwrap();
    assert_eq!(again.header("idempotency-replayed"), "true");
}

/// Twenty strangers, of whom one waits for a lock that another transaction holds: the others are answered.
async fn one_waits(database: &TestDatabase, hold: &str) -> Answer {
    let (api, keys) = strangers(database, 500, 20).await;
    // The node knows its gates, and with them the quotas.
    eventually("a copy of the gates", || async {
        let answer = posting(&api, &keys[0], "first", 0).await.unwrap();
        !answer.header("ratelimit").is_empty()
    })
    .await;
    let mut session = Session::begin(database).await;
    session.texts(hold).await;

    let waiting = posting(&api, &keys[7], "k7", 7);
    let mut others = Vec::new();
    for round in 0..5 {
        for (place, submitter) in keys.iter().enumerate().filter(|&(place, _)| place != 7) {
            others.push(posting(&api, submitter, &format!("k{place}-{round}"), place));
        }
    }
    for answer in join_all(others).await {
        assert_eq!(answer.unwrap().status, 202);
    }
    assert!(!waiting.is_finished());

    session.commit().await;
    waiting.await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_an_open_transaction_keeps_only_its_request_waiting() {
    let database = TestDatabase::new().await;
    let hold = "select outcome from tidegate.submit('direct', '{\"place\": 7}', 'k7', 's7')";
    let answer = one_waits(&database, hold).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    assert_eq!(answer.header("idempotency-replayed"), "true");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_whose_key_another_transaction_holds_is_told_so() {
    let database = TestDatabase::unlimited().await;
    let options = HttpOptions { request_timeout: Duration::from_secs(4), ..HttpOptions::default() };
    let api = Api::start(database.store.clone(), &options).await;
    let mut open = Session::begin(&database).await;
    open.execute("select tidegate.submit('direct', '{\"n\": 1}', 'k')").await;

    let busy = api.post_with_key("/v1/direct", "k", &json!({"n": 1})).await;
    busy.assert_problem(503, "key_busy");

    open.commit().await;
    let again = api.post_with_key("/v1/direct", "k", &json!({"n": 1})).await;
    assert_eq!(again.header("idempotency-replayed"), "true", "{again:?}");
    assert_eq!(database.number("select count(*) from tidegate.request").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_locked_quota_delays_only_its_submitter() {
    let database = TestDatabase::new().await;
    database.execute("select tidegate.quota_set(submitter => 's7', high_water => 10, low_water => 5)").await;
    let hold = "select outcome from tidegate.submit('direct', '{}', null, 's7')";
    let answer = one_waits(&database, hold).await;
    assert_eq!(answer.status, 202, "{answer:?}");
    assert_eq!(answer.header("idempotency-replayed"), "");
}
