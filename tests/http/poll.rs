//! Does a poll follow a request to its end, and does a cancel end one that waits?

use serde_json::json;
use tidegate::{
    internals::store::{Claimed, Outcome, Settle},
    request::{RequestError, Stage},
    stage::Receipt,
};

use super::{Api, responses::send_all};
use crate::support::{TestDatabase, campaign, race::Session, until_blocked};

async fn claim(database: &TestDatabase) -> Vec<Claimed> {
    let lease = std::time::Duration::from_secs(60);
    database.store.claim(Stage::Tx, "tx", "test", 100, lease, None).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poll_follows_the_request_to_its_result() {
    let database = TestDatabase::unlimited().await;
    let api = Api::of(&database).await;
    let path = api.submit("direct").await;

    let waiting = api.get(&path).await;
    assert_eq!(waiting.status, 202);
    assert_eq!(waiting.header("cache-control"), "no-store");
    assert_eq!(waiting.body["status"], "queued");
    assert_eq!(waiting.body["state"], "processing");
    assert_eq!(waiting.body["position"], 0);
    assert_eq!(waiting.body["eta_seconds"], waiting.retry_after());
    assert!(waiting.body["elapsed_seconds"].is_u64());
    assert!(path.ends_with(waiting.body["job_id"].as_str().unwrap()));

    let claimed = claim(&database).await;
    let in_flight = api.get(&path).await;
    assert_eq!(in_flight.status, 202);
    assert_eq!(in_flight.body["state"], "tx_in_flight");
    assert!(in_flight.retry_after() >= 1);

    database.store.settle("tx", &[Settle::new(claimed[0].lease, Outcome::Receipt(Receipt::default()))]).await.unwrap();
    let awaiting = api.get(&path).await;
    assert_eq!(awaiting.status, 202);
    assert_eq!(awaiting.body["state"], "receipt_received");
    assert!(awaiting.body["position"].is_null());
    assert_eq!(awaiting.retry_after(), 4);

    api.post(&format!("{path}/responses"), &json!({"response": {"x": [1.50, "\u{fc}"]}})).await;
    let ended = api.get(&path).await;
    assert_eq!(ended.status, 200);
    assert_eq!(ended.header("retry-after"), "");
    assert_eq!(ended.header("cache-control"), "no-store");
    assert_eq!(ended.body["status"], "succeeded");
    assert_eq!(ended.body["state"], "completed");
    assert_eq!(ended.body["result"], json!({"x": [1.5, "\u{fc}"]}));
    assert!(ended.body.get("error").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quote_says_what_a_submission_would_be_told() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    let quoted = api.get("/v1/direct/quote").await;
    assert_eq!(quoted.status, 200);
    assert_eq!(quoted.body, json!({"outcome": "accepted", "position": 0, "eta_seconds": 3}));
    let submitted = api.post("/v1/direct", &json!({})).await;
    assert_eq!(submitted.body["eta_seconds"], 3);
    assert_eq!(api.get("/v1/direct/quote").await.body["position"], 1);

    database.execute("select tidegate.gate_force('tx', 'too_many_requests')").await;
    let refused = api.get("/v1/direct/quote").await;
    assert_eq!((refused.status.as_u16(), &refused.body["outcome"]), (200, &json!("refused")));
    assert!(refused.body["position"].is_null() && refused.body["eta_seconds"].as_i64() >= Some(1));

    assert_eq!(api.get("/v1/nope/quote").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_request_says_why() {
    let database = TestDatabase::unlimited().await;
    let api = Api::of(&database).await;
    let path = api.submit("direct").await;
    let claimed = claim(&database).await;
    let error = RequestError::new("rejected", "no such contract", false);
    database.store.settle("tx", &[Settle::new(claimed[0].lease, Outcome::Rejected(error))]).await.unwrap();

    let failed = api.get(&path).await;

    assert_eq!(failed.status, 200);
    assert_eq!(failed.body["status"], "failed");
    assert_eq!(failed.body["error"], json!({"code": "rejected", "message": "no such contract", "retryable": false}));
    assert!(failed.body.get("result").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_response_is_overdue_is_timed_out() {
    let database = TestDatabase::unlimited().await;
    let api = Api::of(&database).await;
    database.execute("update tidegate.kind set response_timeout = '1 ms'").await;
    let path = api.submit("direct").await;
    send_all(&database, "0x1").await;
    crate::support::eventually("the request times out", || async {
        database.execute("select tidegate.expire_responses()").await;
        api.get(&path).await.status == 200
    })
    .await;

    let ended = api.get(&path).await;

    assert_eq!(ended.body["status"], "timed_out");
    assert_eq!(ended.body["state"], "timed_out");
    assert!(ended.body["error"]["code"].is_string(), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_id_that_is_no_request_of_the_kind_is_unknown() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    let path = api.submit("direct").await;
    let id = path.rsplit('/').next().unwrap();

    for path in [
        format!("/v1/input-proof/{id}"),
        "/v1/direct/01890000-0000-7000-8000-000000000000".to_owned(),
        "/v1/direct/7".to_owned(),
        "/v1/direct/%00".to_owned(),
    ] {
        api.get(&path).await.assert_problem(404, "unknown_request");
        api.delete(&path).await.assert_problem(404, "unknown_request");
        let response = json!({"response": 1});
        let refused = api.post(&format!("{path}/responses"), &response).await;
        refused.assert_problem(404, "unknown_request");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_request_is_cancelled_however_often_one_asks() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;
    let path = api.submit("user-decrypt").await;

    for _ in 0..2 {
        let cancelled = api.delete(&path).await;
        assert_eq!(cancelled.status, 200, "{cancelled:?}");
        assert_eq!(cancelled.body["outcome"], "cancelled");
        assert_eq!(cancelled.body["state"], "failure");
    }

    let ended = api.get(&path).await;
    assert_eq!(ended.status, 200);
    assert_eq!(ended.body["status"], "failed");
    assert_eq!(ended.body["error"]["code"], "cancelled");
    assert_eq!(ended.body["error"]["message"], "cancelled before it was sent");
    assert_eq!(ended.body["executed"], "no");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_being_sent_is_cancelled_unless_its_send_succeeds() {
    let database = TestDatabase::unlimited().await;
    let api = Api::of(&database).await;
    for (settle, then) in
        [("settle_retry(array[c.lease], null)", ""), ("settle_receipt(array[c.lease])", "receipt_received")]
    {
        let path = api.submit("direct").await;
        database
            .execute("create table public.c as select lease from tidegate.claim_tx('tx', 'w', 1, '1 minute')")
            .await;
        assert_eq!(api.get(&path).await.body.get("cancelling"), None);

        for _ in 0..2 {
            let cancelling = api.delete(&path).await;
            assert_eq!(cancelling.status, 202, "{cancelling:?}");
            assert!(cancelling.retry_after() > 0);
            assert_eq!(cancelling.body["cancelling"], true);
            assert_eq!(cancelling.body["state"], "tx_in_flight");
        }
        assert_eq!(api.get(&path).await.body["cancelling"], true);

        database.execute(&format!("select tidegate_internal.{settle} from public.c; drop table public.c")).await;
        let told = api.get(&path).await;
        if then.is_empty() {
            assert_eq!(told.status, 200);
            assert_eq!(told.body["error"]["code"], "cancelled");
            assert_eq!(told.body["executed"], "unknown");
            assert_eq!(
                told.body["error"]["message"],
                "cancelled; it may have been executed: poll it, ask the downstream, or send it again under a new key"
            );
        } else {
            assert_eq!(told.body["state"], then);
            let refused = api.delete(&path).await;
            refused.assert_problem(409, "not_cancellable");
            assert!(refused.detail().contains(then));
            assert_eq!(refused.body["state"], then);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_cancellations_get_the_same_answer() {
    let database = TestDatabase::new().await;
    let api = Api::of(&database).await;

    for _ in 0..5 {
        let path = api.submit("direct").await;
        let cancels = (0..6).map(|_| api.delete(&path));
        for cancelled in futures_util::future::join_all(cancels).await {
            assert_eq!(cancelled.status, 200, "{cancelled:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nominal_eta_has_no_jitter_and_header_and_body_tell_it() {
    let database = TestDatabase::new().await;
    let awaited = database.request_in("public_decrypt", "receipt_received").await;
    database
        .execute(
            "select tidegate.submit_batch('direct', array_fill('{}'::jsonb, array[1000]));
             update tidegate.setting set jitter = 0.5",
        )
        .await;
    let api = Api::of(&database).await;
    let path = api.submit("direct").await;
    let batch = json!(vec![1; 50]);

    for _ in 0..campaign(8, 40) {
        let told = api.get(&path).await;
        assert_eq!(told.body["eta_seconds"], 123);
        assert_eq!(told.retry_after(), 123);
        let told = api.post_with_key("/v1/direct/batch", "b", &batch).await;
        assert_eq!(told.body["eta_seconds"], 129);
        assert_eq!(told.retry_after(), 129);
        // B(E).
        let told = api.get(&format!("/v1/public-decrypt/{awaited}")).await;
        assert_eq!(told.body["eta_seconds"], 4);
        assert_eq!(told.retry_after(), 4);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_observed_eta_is_spread_and_header_and_body_tell_the_same_number() {
    let database = TestDatabase::new().await;
    database
        .execute(
            "update tidegate.kind set eta = 'observed' where name = 'direct';
             update tidegate.setting set jitter = 0.5;
             insert into tidegate.finish_sample (
               kind, requests, answer_ms, predicted, error_ms, error_abs_ms, error_bins, p90_stated, p90_held
             )
             select 'direct', 1, array[60000 + 1000 * i], 0, 0, 0, array_fill(0, array[8]), 0, 0
             from generate_series(0, 20) as i;
             select tidegate.take_samples()",
        )
        .await;
    let api = Api::of(&database).await;
    let mut told = std::collections::BTreeSet::new();
    for _ in 0..campaign(16, 40) {
        let taken = api.post("/v1/direct", &json!(1)).await;
        assert_eq!(taken.body["eta_seconds"], taken.retry_after());
        told.insert(taken.retry_after());
    }
    assert!(told.len() > 3, "{told:?}");

    // The jitter is the request's own: a poll that finds no news tells the same again.
    let path = api.submit("direct").await;
    let first = api.get(&path).await;
    for _ in 0..campaign(4, 10) {
        let poll = api.get(&path).await;
        assert_eq!(poll.body["eta_seconds"], poll.retry_after());
        assert_eq!(poll.retry_after(), first.retry_after());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_was_submitted_again_says_as_what() {
    let database = TestDatabase::unlimited().await;
    let api = Api::of(&database).await;
    let path = api.submit("direct").await;
    let id = path.rsplit('/').next().unwrap();
    database.execute(&format!("select tidegate.fail_internal(array['{id}']::uuid[])")).await;
    assert_eq!(api.get(&path).await.body.get("redriven_as"), None);

    database.execute("select tidegate.redrive()").await;

    let ended = api.get(&path).await;
    assert_eq!(ended.body["status"], "failed");
    let new = ended.body["redriven_as"].as_str().unwrap();
    let again = api.get(&path.replace(id, new)).await;
    assert_eq!(again.status, 202);
}

#[tokio::test(flavor = "multi_thread")]
async fn authorising_a_cancellation_or_a_response_computes_no_eta() {
    let database = TestDatabase::unlimited().await;
    let api = Api::of(&database).await;
    let (cancelled, answered) = (api.submit("direct").await, api.submit("direct").await);
    database.execute("alter function tidegate.request_outlooks rename to out_of_order").await;

    assert_eq!(api.get(&cancelled).await.status, 503);
    assert_eq!(api.delete(&cancelled).await.status, 200);
    let response = json!({"response": {}});
    let path = format!("{answered}/responses");
    assert_eq!(api.post(&path, &response).await.status, 202, "it is early");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_cannot_be_read_fails_no_other_poll_of_its_group() {
    let database = TestDatabase::unlimited().await;
    let api = Api::of(&database).await;
    let mut paths = Vec::new();
    for _ in 0..6 {
        paths.push(api.submit("direct").await);
    }
    // By hand: more seconds than an answer can have.
    let (_, unreadable) = paths[3].rsplit_once('/').unwrap();
    database.execute(&format!("update tidegate.request set eta_seconds = 1e12 where id = '{unreadable}'")).await;
    let mut holder = Session::begin(&database).await;
    holder.execute("lock table tidegate.request in access exclusive mode").await;

    let polls: Vec<_> =
        paths.iter().cycle().take(60).map(|path| tokio::spawn(api.client.get(api.url(path)).send())).collect();
    until_blocked(&database, 1).await;
    holder.rollback().await;

    for (poll, path) in polls.into_iter().zip(paths.iter().cycle()) {
        let status = poll.await.unwrap().unwrap().status();
        assert_eq!(status == 202, !path.ends_with(unreadable), "{path}: {status}");
    }
}
