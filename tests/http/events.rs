//! The way of a request as server-sent events: every state, in order, also for those who come back or read slowly.

use std::{collections::VecDeque, time::Duration};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tidegate::{
    internals::{
        api_key::Scope,
        store::{Claimed, Outcome, Settle},
    },
    request::Stage,
    stage::Receipt,
};
use tidegate_node::HttpOptions;
use tokio::io::AsyncReadExt;

use super::{
    Api,
    access::key,
    answer,
    responses::send_all,
    waiting::{Listening, awaiting, id_of},
};
use crate::support::{TestDatabase, eventually};

/// One event, taken apart.
#[derive(Debug, Clone, PartialEq)]
struct Event {
    name: String,
    id: i32,
    data: Value,
}

/// A stream of events, as its reader sees it.
struct Events {
    response: reqwest::Response,
    text: String,
    read: VecDeque<Event>,
}

impl Events {
    async fn open(api: &Api, path: &str, last: Option<i32>) -> Self {
        let mut request = api.client.get(api.url(&format!("{path}/events")));
        if let Some(last) = last {
            request = request.header("last-event-id", last.to_string());
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        assert_eq!(response.headers()["cache-control"], "no-store");
        Self { response, text: String::new(), read: VecDeque::new() }
    }

    /// The next event; `None` when the stream has ended as it should.
    async fn next(&mut self) -> Option<Event> {
        let next = tokio::time::timeout(Duration::from_secs(30), self.read_next());
        next.await.expect("no event came")
    }

    async fn read_next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.read.pop_front() {
                return Some(event);
            }
            let chunk = self.response.chunk().await.unwrap()?;
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
            let (whole, rest) = self.text.rsplit_once("\n\n").unwrap_or(("", &self.text));
            self.read.extend(whole.split("\n\n").filter_map(event));
            self.text = rest.to_owned();
        }
    }

    /// The next event, which is one of this name.
    async fn expect(&mut self, name: &str) -> Event {
        let event = self.next().await.expect("the stream has ended");
        assert_eq!(event.name, name, "{event:?}");
        event
    }

    /// The next change of state; positions and ETAs may change meanwhile.
    async fn state(&mut self) -> Event {
        loop {
            let event = self.next().await.expect("the stream has ended");
            match event.name.as_str() {
                "position" | "eta" => {}
                _ => return event,
            }
        }
    }
}

/// An event of its text; comments and hints are none.
fn event(text: &str) -> Option<Event> {
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    Some(Event {
        name: field("event")?.to_owned(),
        id: field("id").unwrap().parse().unwrap(),
        data: serde_json::from_str(field("data").unwrap()).unwrap(),
    })
}

async fn claim(database: &TestDatabase, stage: Stage, queue: &str) -> Vec<Claimed> {
    let lease = Duration::from_secs(60);
    database.store.claim(stage, queue, "test", 100, lease, None).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decrypt_is_followed_through_all_its_states() {
    let database = TestDatabase::unlimited().await;
    let node = Listening::of(&database).await;
    let path = node.api.submit("public-decrypt").await;
    let mut events = Events::open(&node.api, &path, None).await;
    let store = &database.store;

    let queued = events.expect("state").await;
    assert!(events.text.is_empty());
    assert_eq!(queued.data["state"], "queued");
    assert_eq!(queued.data["position"], 0);
    assert!(queued.data["eta_seconds"].as_u64() >= Some(1));
    assert!(path.ends_with(queued.data["job_id"].as_str().unwrap()));

    let checked = claim(&database, Stage::Readiness, "readiness").await;
    store.settle("readiness", &[Settle::new(checked[0].lease, Outcome::Passed)]).await.unwrap();
    let processing = events.state().await;
    assert_eq!(processing.data["state"], "processing");
    let sending = claim(&database, Stage::Tx, "tx").await;
    let in_flight = events.state().await;
    assert_eq!(in_flight.data["state"], "tx_in_flight");
    store.settle("tx", &[Settle::new(sending[0].lease, Outcome::Receipt(Receipt::default()))]).await.unwrap();
    let received = events.state().await;
    assert_eq!(received.data["state"], "receipt_received");
    assert!(received.data["position"].is_null());
    node.api.post(&format!("{path}/responses"), &json!({"response": {"a": "\n"}})).await;
    let result = events.state().await;
    assert_eq!(result.name, "result");
    assert_eq!(result.data["status"], "succeeded");
    assert_eq!(result.data["result"], json!({"a": "\n"}));
    assert_eq!(events.next().await, None);

    let ids = [queued, processing, in_flight, received, result].map(|event| event.id);
    assert_eq!(ids, [1, 2, 3, 4, 5]);
    node.until_waiting(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_reconnects_gets_the_missed_events_and_none_twice() {
    let database = TestDatabase::unlimited().await;
    let node = Listening::of(&database).await;
    let path = node.api.submit("public-decrypt").await;
    let queued = Events::open(&node.api, &path, None).await.expect("state").await;
    send_all(&database, "0x1").await;

    let mut events = Events::open(&node.api, &path, Some(queued.id)).await;
    for (state, id) in [("processing", 2), ("tx_in_flight", 3), ("receipt_received", 4)] {
        let event = events.expect("state").await;
        assert_eq!((event.data["state"].as_str(), event.id), (Some(state), id));
    }
    drop(events);

    // Nothing has changed since: no state again, but how long it may take from here.
    let mut events = Events::open(&node.api, &path, Some(4)).await;
    node.until_waiting(1).await;
    node.api.delete(&path).await.assert_problem(409, "not_cancellable");
    node.api.post(&format!("{path}/responses"), &json!({"response": 1})).await;
    let result = events.state().await;
    assert_eq!((result.name.as_str(), result.id), ("result", 5));
    assert_eq!(events.next().await, None);

    // What is none of ours counts for nothing, and so does what lies ahead.
    for last in ["4", "0", "-1", "soon", "99", "99999999999999999999"] {
        let request = node.api.client.get(node.api.url(&format!("{path}/events")));
        let again = answer(request.header("last-event-id", last)).await;
        assert_eq!(again.status, 200, "{last}");
        let text = again.body.as_str().unwrap();
        assert!(text.contains("\nevent: result\n") || text.starts_with("event: result\n"), "{text}");
    }
    // A reader with the result needs no more events: browsers stop at 204.
    let request = node.api.client.get(node.api.url(&format!("{path}/events")));
    let done = answer(request.header("last-event-id", "5")).await;
    assert_eq!(done.status, 204);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_request_gets_its_result_at_once() {
    let database = TestDatabase::unlimited().await;
    let node = Listening::of(&database).await;
    let path = node.api.submit("direct").await;
    node.api.delete(&path).await;

    let mut events = Events::open(&node.api, &path, None).await;

    let result = events.expect("result").await;
    assert_eq!(result.data["status"], "failed");
    assert_eq!(result.data["error"]["code"], "cancelled");
    assert_eq!(events.next().await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn positions_and_etas_are_told_as_they_change() {
    let database = TestDatabase::new().await;
    // Slow enough that each place before it counts.
    database.execute("update tidegate.queue set per_seconds = 1 where name = 'tx'").await;
    let node = Listening::of(&database).await;
    let mut before = Vec::new();
    for _ in 0..4 {
        before.push(node.api.submit("direct").await);
    }
    let path = node.api.submit("direct").await;
    let mut events = Events::open(&node.api, &path, None).await;
    let state = events.expect("state").await;
    assert_eq!(state.data["position"], 4);

    node.api.delete(&before[0]).await;
    let moved = events.expect("position").await;
    assert_eq!(moved.data["position"], 3);
    assert!(moved.data["eta_seconds"].as_u64() < state.data["eta_seconds"].as_u64());
    assert_eq!(moved.id, state.id);

    database.execute("update tidegate.queue set per_seconds = 0.1 where name = 'tx'").await;
    let slower = events.expect("eta").await;
    assert!(slower.data["eta_seconds"].as_u64() > state.data["eta_seconds"].as_u64());
    assert!(slower.data.get("position").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn there_is_nothing_to_follow_of_what_does_not_exist() {
    let database = TestDatabase::new().await;
    let node = Listening::of(&database).await;
    let path = node.api.submit("direct").await;
    let client = &node.api.client;

    for path in [
        "/v1/direct/01890000-0000-7000-8000-000000000000/events".to_owned(),
        "/v1/direct/7/events".to_owned(),
        format!("{}/events", path.replace("direct", "input-proof")),
    ] {
        node.api.get(&path).await.assert_problem(404, "unknown_request");
        let head = client.head(node.api.url(&path)).send().await.unwrap();
        assert_eq!(head.status(), 404);
    }
    let head = client.head(node.api.url(&format!("{path}/events")));
    let head = head.send().await.unwrap();
    assert_eq!(head.status(), 200);
    assert_eq!(head.headers()["content-type"], "text/event-stream");
    let posted = node.api.post(&format!("{path}/events"), &json!({})).await;
    posted.assert_problem(405, "method_not_allowed");
    node.until_waiting(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_key_takes_no_more_than_half_of_the_streams() {
    let database = TestDatabase::unlimited().await;
    let keys = [key(&database, "ann", &[Scope::Submit]).await, key(&database, "bob", &[Scope::Submit]).await];
    let options = HttpOptions { streams_max: 4, ..HttpOptions::default() };
    let node = Listening::start(&database, &options).await;
    let [ann, bob] = [&keys[0], &keys[1]].map(|key| node.api.bearing(key));
    let paths = [ann.submit("direct").await, bob.submit("direct").await];
    let open = async |who: usize| {
        let request = [&ann, &bob][who].ask(Method::GET, &format!("{}/events", paths[who]));
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response)
    };

    let (one, two) = (open(0).await, open(0).await);
    assert_eq!([one.0, two.0, open(0).await.0], [200, 200, 503]);
    let others = (open(1).await, open(1).await);
    assert_eq!([others.0.0, others.1.0, open(1).await.0], [200, 200, 503]);

    drop(one);
    eventually("its place is free again", || async { open(0).await.0 == 200 }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_are_bounded_and_one_that_is_left_makes_room() {
    let database = TestDatabase::unlimited().await;
    let options = HttpOptions {
        streams_max: 2,
        // A stream takes no place of a call once it is open, and outlasts the time of one.
        concurrency_limit: 1,
        request_timeout: Duration::from_secs(5),
        ..HttpOptions::default()
    };
    let node = Listening::start(&database, &options).await;
    let path = node.api.submit("direct").await;
    let mut first = Events::open(&node.api, &path, None).await;
    let second = Events::open(&node.api, &path, None).await;

    let refused = node.api.get(&format!("{path}/events")).await;
    refused.assert_problem(503, "overloaded");

    drop(second);
    eventually("there is room again", || async {
        let request = node.api.client.get(node.api.url(&format!("{path}/events")));
        request.send().await.unwrap().status() == StatusCode::OK
    })
    .await;
    first.expect("state").await;
    send_all(&database, "0x1").await;
    node.api.post(&format!("{path}/responses"), &json!({"response": 1})).await;
    loop {
        if first.state().await.name == "result" {
            break;
        }
    }
    assert_eq!(first.next().await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shutdown_ends_streams_cleanly() {
    let database = TestDatabase::unlimited().await;
    let node = Listening::of(&database).await;
    let path = awaiting(&database, &node.api).await;
    let mut events = Events::open(&node.api, &path, None).await;
    events.expect("state").await;

    node.api.shutdown.cancel();

    // The end of the body, and not a connection that breaks.
    assert_eq!(events.next().await, None);
    node.api.served.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_reader_misses_no_state() {
    let database = TestDatabase::unlimited().await;
    let node = Listening::of(&database).await;
    let path = node.api.submit("public-decrypt").await;
    let call = format!("GET {path}/events HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let mut stream = node.api.raw(&call).await;
    node.until_waiting(1).await;

    // All of it happens before the reader reads a byte.
    send_all(&database, "0x1").await;
    let response = json!({"response": "x".repeat(500_000)});
    node.api.post(&format!("{path}/responses"), &response).await;
    eventually("it has ended", || async { database.status(id_of(&path)).await == "completed" }).await;
    let mut said = String::new();
    stream.read_to_string(&mut said).await.unwrap();

    // Positions and ETAs that changed have the number of their state, too: the claim changes those of the first.
    let events = said.split("\n\n").filter_map(event);
    let states = events.filter(|event| matches!(event.name.as_str(), "state" | "result"));
    assert_eq!(states.map(|event| event.id).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert!(said.contains(&"x".repeat(400)));
    assert!(said.ends_with("0\r\n\r\n"), "the body is whole");
    node.until_waiting(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_outlives_the_loss_of_every_connection() {
    let database = TestDatabase::unlimited().await;
    let node = Listening::of(&database).await;
    let path = awaiting(&database, &node.api).await;
    let mut events = Events::open(&node.api, &path, None).await;
    events.expect("state").await;
    let mut session = database.session().await;
    sqlx::raw_sql(
        "select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and pid <> pg_backend_pid()",
    )
    .execute(&mut session)
    .await
    .unwrap();
    sqlx::raw_sql(&format!("select tidegate.respond('1', id => '{}')", id_of(&path)))
        .execute(&mut session)
        .await
        .unwrap();

    assert_eq!(events.state().await.name, "result");
    assert_eq!(events.next().await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_when_its_time_is_over_and_its_reader_misses_nothing() {
    let database = TestDatabase::unlimited().await;
    let options = HttpOptions { stream_time: Duration::from_millis(300), ..HttpOptions::default() };
    let node = Listening::start(&database, &options).await;
    let path = node.api.submit("direct").await;
    let mut events = Events::open(&node.api, &path, None).await;
    let state = events.state().await;
    assert_eq!(state.data["state"], "processing");

    while let Some(event) = events.next().await {
        assert_ne!(event.name, "result", "{event:?}");
    }
    node.until_waiting(0).await;

    send_all(&database, "0x1").await;
    node.api.post(&format!("{path}/responses"), &json!({"response": 1})).await;
    let mut again = Events::open(&node.api, &path, Some(state.id)).await;
    for expected in ["tx_in_flight", "receipt_received", "completed"] {
        assert_eq!(again.state().await.data["state"], expected);
    }
    assert_eq!(again.next().await, None);
}
