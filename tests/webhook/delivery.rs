//! Does a delivery say what a poll says, under one id, and does it survive the death of its deliverer?

use reqwest::StatusCode;
use serde_json::{Value, json};
use tidegate::request::RequestId;
use tidegate_node::{HttpOptions, Node, NodeOptions, internals::serve, webhook::Options};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{Deliverer, Receiver, quiet};
use crate::support::{TestDatabase, sql::leases};

/// What a `GET` of a path of `/v1` answers, as text.
async fn get_text(database: &TestDatabase, path: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    let router = Node::of_store(database.store.clone(), NodeOptions::default().http(HttpOptions::default())).router();
    tokio::spawn(serve(listener, router, stop));
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("http://{address}/v1/{path}");
    client.get(url).send().await.unwrap().text().await.unwrap()
}

/// What a `GET` of a request answers.
async fn get(database: &TestDatabase, kind: &str, id: &str) -> Value {
    serde_json::from_str(&get_text(database, &format!("{kind}/{id}")).await).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_says_what_a_get_answers_and_who_it_is() {
    let database = TestDatabase::unlimited().await;
    let receiver = Receiver::allowed(&database).await;
    database.execute(&format!("update tidegate.kind set callback_url = '{}'", receiver.url())).await;
    let _deliverer = Deliverer::of(&database);

    for (kind, status, told) in [
        ("direct", "completed", "succeeded"),
        ("public_decrypt", "timed_out", "timed_out"),
        ("input_proof", "failure", "failed"),
    ] {
        let before = receiver.count();
        let id = RequestId(database.request_in(kind, status).await);
        let delivery = receiver.until(before + 1).await.pop().unwrap();
        database.until_delivery_is(id, "delivered").await;

        let path = kind.replace('_', "-");
        let body = delivery.json();
        assert_eq!(body["status"], told);
        assert_eq!(body["kind"], path);
        let Value::Object(answer) = get(&database, &path, &id.to_string()).await else {
            panic!("not an object");
        };
        for (name, value) in answer {
            assert_eq!(body[&name], value, "{name} of {body}");
        }
        let finished: chrono::DateTime<chrono::Utc> = body["finished_at"].as_str().unwrap().parse().unwrap();
        assert!((chrono::Utc::now() - finished).num_seconds() < 60);

        let delivery_id = database.delivery(id, "id").await.unwrap();
        assert_eq!(body["delivery_id"], delivery_id);
        assert_ne!(delivery_id, id.to_string());
        assert_eq!(delivery.header("webhook-id"), delivery_id);
        assert_eq!(delivery.header("idempotency-key"), delivery_id);
        assert_eq!(delivery.header("tidegate-attempt"), "1");
        assert_eq!(delivery.header("content-type"), "application/json");
        assert!(delivery.header("user-agent").starts_with("tidegate/"));
        assert_eq!(database.delivery(id, "last_status").await.unwrap(), "204");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_and_text_of_a_result_arrive_as_they_were_stored() {
    let database = TestDatabase::unlimited().await;
    let receiver = Receiver::allowed(&database).await;
    let _deliverer = Deliverer::of(&database);
    database.submit_telling(&receiver.url()).await;
    let claims = database.claim_tx(1).await;
    let result = r#"{"big": 12345678901234567890.123456789, "text": "🌊 \u0007 \" </script>"}"#;
    database
        .execute(&format!(
            "select tidegate_internal.settle_receipt({}, null, array['{result}'::jsonb])",
            leases(&claims)
        ))
        .await;

    let body = receiver.until(1).await[0].body.clone();
    let text = String::from_utf8(body.to_vec()).unwrap();
    assert!(text.contains("12345678901234567890.123456789"), "{text}");
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["result"]["text"], "🌊 \u{7} \" </script>");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_proof_has_its_reason_in_poll_events_and_webhook_if_its_kind_shows_it() {
    let database = TestDatabase::unlimited().await;
    let receiver = Receiver::allowed(&database).await;
    database.execute(&format!("update tidegate.kind set callback_url = '{}'", receiver.url())).await;
    let _deliverer = Deliverer::of(&database);
    let verdict = r#"{"limit": 12345678901234567890.5, "reason": "out of range"}"#;
    let mut polls = Vec::new();

    for (place, (shows, verdict, shown)) in [
        (None, verdict, false),
        (Some("true"), verdict, true),
        (Some("true"), "null", false),
        (Some("false"), verdict, false),
    ]
    .into_iter()
    .enumerate()
    {
        if let Some(shows) = shows {
            let set = format!("select tidegate.config_set('input_proof.reject_details', '{shows}')");
            database.execute(&set).await;
        }
        let id = database.request_in("input_proof", "receipt_received").await;
        database.execute(&format!("select tidegate.respond('{verdict}', id => '{id}', accept => false)")).await;

        let delivered = receiver.until(place + 1).await.remove(place);
        let path = format!("input-proof/{id}");
        let poll = get_text(&database, &path).await;
        let events = get_text(&database, &format!("{path}/events")).await;
        let event = events.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
        let webhook = String::from_utf8(delivered.body.to_vec()).unwrap();
        for text in [poll.as_str(), event, &webhook] {
            let body: Value = serde_json::from_str(text).unwrap();
            assert_eq!(body["status"], "failed", "{text}");
            assert_eq!(body["executed"], "yes", "{text}");
            assert_eq!(body["error"]["code"], "verdict_rejected", "{text}");
            assert_eq!(body["error"].get("details").is_some(), shown, "{text}");
            assert_eq!(text.contains("out of range"), shown, "{text}");
            assert_eq!(text.contains(&format!("\"details\":{verdict}")), shown, "{text}");
        }
        polls.push((path, poll));
    }

    // The verdict decides, not a later change of the kind; the history has no copy.
    for (path, poll) in polls {
        assert_eq!(get_text(&database, &path).await, poll);
    }
    let copies = "select count(*) from tidegate.request_event where detail::text like '%out of range%'";
    assert_eq!(database.number(copies).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_deliverers_delivery_is_made_again_under_the_same_id_and_body() {
    let database = TestDatabase::unlimited().await;
    let receiver = Receiver::allowed(&database).await;
    receiver.hold.send(true).unwrap();
    let id = database.ended_telling(&receiver.url()).await;

    // Killed between the POST, which the receiver has, and its settle.
    let killed = Deliverer::of(&database);
    receiver.until(1).await;
    drop(killed);
    let _other = Deliverer::of(&database);
    quiet().await;
    assert_eq!(receiver.count(), 1, "the lease holds");
    database.all_due().await;
    receiver.until(2).await;
    receiver.hold.send(false).unwrap();
    database.until_delivery_is(id, "delivered").await;

    let received = receiver.received();
    assert_eq!(received.len(), 2);
    for name in ["webhook-id", "idempotency-key"] {
        assert_eq!(received[0].header(name), received[1].header(name));
    }
    assert_eq!(received[0].body, received[1].body);
    assert_eq!(received[0].header("tidegate-attempt"), "1");
    assert_eq!(received[1].header("tidegate-attempt"), "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settle_under_a_lost_lease_changes_nothing() {
    let database = TestDatabase::unlimited().await;
    let receiver = Receiver::allowed(&database).await;
    let id = database.ended_telling(&receiver.url()).await;
    let claim = || async { database.store.webhook_claim(10, 10).await.unwrap() };
    let late = claim().await.pop().unwrap();
    assert!(claim().await.is_empty(), "one at a time");
    database.all_due().await;
    let holder = claim().await.pop().unwrap();
    assert_eq!((late.id, late.attempt), (holder.id, 1));
    assert_eq!(holder.attempt, 2);

    let delivered = tidegate::internals::store::Attempted::Delivered { status: 200 };
    let settle = |lease_token| database.store.webhook_settle(id, lease_token, &delivered);
    assert_eq!(settle(late.lease_token).await.unwrap(), None);
    assert_eq!(database.delivery(id, "state").await.unwrap(), "pending");
    let settled = settle(holder.lease_token).await.unwrap();
    assert_eq!(settled.as_deref(), Some("delivered"));
    assert_eq!(settle(holder.lease_token).await.unwrap(), None, "once");
}

#[tokio::test(flavor = "multi_thread")]
async fn several_deliverers_make_each_delivery_once() {
    let database = TestDatabase::unlimited().await;
    let receiver = Receiver::allowed(&database).await;
    let mut ids = Vec::new();
    for _ in 0..60 {
        ids.push(database.ended_telling(&receiver.url()).await);
    }
    let deliverers: Vec<_> = (0..4).map(|_| Deliverer::of(&database)).collect();
    for id in ids {
        database.until_delivery_is(id, "delivered").await;
    }
    for deliverer in deliverers {
        deliverer.stop().await;
    }

    assert_eq!(receiver.count(), 60);
    let mut delivered: Vec<_> = receiver.received().iter().map(|one| one.header("webhook-id")).collect();
    delivered.sort();
    delivered.dedup();
    assert_eq!(delivered.len(), 60);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_are_under_way_to_one_host_than_the_policy_allows_in_the_whole_fleet() {
    let database = TestDatabase::unlimited().await;
    database.execute("update tidegate.webhook_policy set per_host = 3").await;
    let receiver = Receiver::allowed(&database).await;
    receiver.has_answered(&database).await;
    receiver.hold.send(true).unwrap();
    for _ in 0..10 {
        database.ended_telling(&receiver.url()).await;
    }
    let _deliverers: Vec<_> = (0..3).map(|_| Deliverer::of(&database)).collect();

    receiver.until(3).await;
    quiet().await;
    assert_eq!(receiver.count(), 3);
    receiver.hold.send(false).unwrap();
    receiver.until(10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_makes_no_more_than_its_own_share_at_once() {
    let database = TestDatabase::unlimited().await;
    let receiver = Receiver::allowed(&database).await;
    receiver.has_answered(&database).await;
    receiver.hold.send(true).unwrap();
    for _ in 0..5 {
        database.ended_telling(&receiver.url()).await;
    }
    let options = Options { concurrency: 2, ..Options::default() };
    let _deliverer = Deliverer::with(&database, options);

    receiver.until(2).await;
    quiet().await;
    assert_eq!(receiver.count(), 2);
    let held = "select count(*) from tidegate.webhook_delivery where lease_token is not null";
    assert_eq!(database.value(held).await, "2", "nothing is held that is not under way");
    receiver.hold.send(false).unwrap();
    receiver.until(5).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deliverer_that_is_told_to_stop_finishes_what_it_has_begun() {
    let database = TestDatabase::unlimited().await;
    let receiver = Receiver::allowed(&database).await;
    receiver.hold.send(true).unwrap();
    let id = database.ended_telling(&receiver.url()).await;
    let deliverer = Deliverer::of(&database);
    receiver.until(1).await;

    let stopping = tokio::spawn(deliverer.stop());
    receiver.hold.send(false).unwrap();
    stopping.await.unwrap();

    assert_eq!(database.delivery(id, "state").await.unwrap(), "delivered");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deliverer_that_may_not_wait_any_longer_gives_back_what_is_under_way() {
    let database = TestDatabase::unlimited().await;
    database.no_backoff().await;
    let receiver = Receiver::allowed(&database).await;
    receiver.hold.send(true).unwrap();
    let id = database.ended_telling(&receiver.url()).await;
    let deliverer = Deliverer::of(&database);
    receiver.until(1).await;
    deliverer.stop().await;

    assert_eq!(database.delivery(id, "state").await.unwrap(), "pending");
    assert_eq!(database.delivery(id, "lease_token").await.unwrap(), "");
    receiver.hold.send(false).unwrap();
    let _next = Deliverer::of(&database);
    database.until_delivery_is(id, "delivered").await;
    assert_eq!(receiver.count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claimed_delivery_that_was_not_sent_is_released_with_its_attempt() {
    let database = TestDatabase::unlimited().await;
    let receiver = Receiver::allowed(&database).await;
    let id = database.ended_telling(&receiver.url()).await;
    let claimed = database.store.webhook_claim(1, 1).await.unwrap();
    let unsent = tidegate::internals::store::Attempted::Unsent;
    let settled = database.store.webhook_settle(id, claimed[0].lease_token, &unsent).await.unwrap();
    assert_eq!(settled.as_deref(), Some("pending"));

    let again = database.store.webhook_claim(1, 1).await.unwrap();
    assert_eq!(again[0].attempt, 1);
    assert_eq!(again[0].id, claimed[0].id);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivered_one_can_be_delivered_again_under_its_id() {
    let database = TestDatabase::unlimited().await;
    let receiver = Receiver::allowed(&database).await;
    let id = database.ended_telling(&receiver.url()).await;
    let _deliverer = Deliverer::of(&database);
    database.until_delivery_is(id, "delivered").await;

    let before = database.store.webhook_redeliver(id).await.unwrap();
    assert_eq!(before.as_deref(), Some("delivered"));
    let received = receiver.until(2).await;
    assert_eq!(received[0].body, received[1].body);
    assert_eq!(received[0].header("idempotency-key"), received[1].header("idempotency-key"));
    let silent = database.submit("direct").await;
    assert_eq!(database.store.webhook_redeliver(silent).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redelivery_does_not_start_a_second_post_beside_the_one_under_way() {
    let database = TestDatabase::unlimited().await;
    let receiver = Receiver::allowed(&database).await;
    receiver.hold.send(true).unwrap();
    let id = database.ended_telling(&receiver.url()).await;
    let _deliverer = Deliverer::of(&database);
    receiver.until(1).await;

    let before = database.store.webhook_redeliver(id).await.unwrap();
    assert_eq!(before.as_deref(), Some("pending"));
    quiet().await;
    assert_eq!(receiver.count(), 1);
    receiver.hold.send(false).unwrap();
    database.until_delivery_is(id, "delivered").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_removed_while_it_is_told_leaves_nothing_behind() {
    let database = TestDatabase::unlimited().await;
    let receiver = Receiver::allowed(&database).await;
    receiver.hold.send(true).unwrap();
    let id = database.ended_telling(&receiver.url()).await;
    let deliverer = Deliverer::of(&database);
    receiver.until(1).await;

    database.execute(&format!("delete from tidegate.request where id = '{id}'")).await;
    receiver.hold.send(false).unwrap();
    deliverer.stop().await;

    let left = "select count(*) from tidegate.webhook_delivery";
    assert_eq!(database.number(left).await, 0);
    assert_eq!(receiver.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callback_over_http_is_told_of_the_end() {
    let database = TestDatabase::unlimited().await;
    let receiver = Receiver::allowed(&database).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let _stop = stop.clone().drop_guard();
    let api = Node::of_store(database.store.clone(), NodeOptions::default().http(HttpOptions::default())).router();
    tokio::spawn(serve(listener, api, stop));
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let _deliverer = Deliverer::of(&database);

    let taken = client
        .post(format!("http://{address}/v1/direct"))
        .header("tidegate-callback-url", receiver.url())
        .json(&json!({"a": 1}))
        .send()
        .await
        .unwrap();
    assert_eq!(taken.status(), StatusCode::ACCEPTED);
    let taken: Value = taken.json().await.unwrap();
    let job = format!("http://{address}/v1/direct/{}", taken["job_id"].as_str().unwrap());
    assert_eq!(client.delete(&job).send().await.unwrap().status(), 200);

    let body = receiver.until(1).await[0].json();
    assert_eq!(body["job_id"], taken["job_id"]);
    assert_eq!(body["executed"], "no");
    assert_eq!(body["error"]["code"], "cancelled");
}
