//! Does a callback hear, after the end, what was executed?

use rand::{SeedableRng, rngs::StdRng, seq::IndexedRandom};
use tidegate::request::RequestId;

use super::{Deliverer, Receiver};
use crate::support::TestDatabase;

/// A request of `direct` with this callback that failed during its only send.
async fn lost(database: &TestDatabase, receiver: &Receiver) -> RequestId {
    let id = database.submit("direct").await;
    database.claim_tx(1).await;
    database
        .execute(&format!(
            "select tidegate.set_callback('{id}', '{}');
             select tidegate.fail_request('{id}', 'lost')",
            receiver.url()
        ))
        .await;
    id
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resolution_is_a_delivery_of_its_own_with_the_whole_state() {
    let database = TestDatabase::unlimited().await;
    let receiver = Receiver::allowed(&database).await;
    let _deliverer = Deliverer::of(&database);
    let id = lost(&database, &receiver).await;
    receiver.until(1).await;
    database.until_delivery_is(id, "delivered").await;

    database.execute(&format!("select tidegate.respond('{{\"cents\": 5}}', id => '{id}')")).await;
    let deliveries = receiver.until(2).await;
    database.until_delivery_is(id, "delivered").await;
    let [ended, resolved] = [0, 1].map(|number| deliveries[number].json());
    assert_eq!((&ended["event"], &resolved["event"]), (&"request.ended".into(), &"request.resolved".into()));
    assert_eq!((&ended["executed"], &resolved["executed"]), (&"unknown".into(), &"yes".into()));
    assert_eq!(ended.get("resolution"), None);
    assert_eq!(resolved["resolution"]["response"]["cents"], 5);
    assert_eq!(ended["job_id"], resolved["job_id"]);
    assert_eq!(resolved["error"]["message"], "lost; it was executed");
    assert_ne!(ended["delivery_id"], resolved["delivery_id"]);
    assert_eq!(deliveries[1].header("tidegate-attempt"), "1");

    // What changes nothing is not told.
    database.execute(&format!("select tidegate.resolve('{id}', 'yes')")).await;
    super::quiet().await;
    assert_eq!(receiver.count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resolution_takes_the_place_of_an_end_that_was_not_delivered() {
    let database = TestDatabase::unlimited().await;
    let receiver = Receiver::allowed(&database).await;
    let id = lost(&database, &receiver).await;
    let claim = "select request_id || ' ' || lease_token from tidegate.webhook_claim(1)";
    let claimed = database.value(claim).await;
    let lease_token = claimed.split_once(' ').unwrap().1;
    database.execute(&format!("select tidegate.resolve('{id}', 'no')")).await;
    // Its deliverer has lost the lease.
    let settled = format!("select tidegate.webhook_settle('{id}', {lease_token}, 'delivered', 204)");
    assert_eq!(database.text(&settled).await, None);

    let _deliverer = Deliverer::of(&database);
    let [resolved] = &receiver.until(1).await[..] else {
        panic!("one delivery");
    };
    database.until_delivery_is(id, "delivered").await;
    assert_eq!(resolved.json()["event"], "request.resolved");
    assert_eq!(resolved.json()["executed"], "no");
    assert_eq!(resolved.json()["error"]["retryable"], true);
}

/// What may be learned of a request after its end.
const FINDINGS: [&str; 9] = [
    "resolve('$id', 'yes')",
    "resolve('$id', 'no')",
    "resolve('$id', 'yes', by_downstream => true)",
    "resolve('$id', 'no', by_downstream => true)",
    "respond('{\"cents\": 5}', id => '$id')",
    "respond('{\"cents\": 6}', id => '$id')",
    "search_settle('$id', 'receipt', 'r', '{\"cents\": 7}')",
    "search_settle('$id', 'answered')",
    "search_settle('$id', 'never')",
];

/// Every attempt of a delivery has the same content, and no receiver keeps an old one.
#[tokio::test(flavor = "multi_thread")]
async fn there_is_a_new_delivery_exactly_when_its_content_has_changed() {
    let database = TestDatabase::unlimited().await;
    let receiver = Receiver::allowed(&database).await;
    let mut random = StdRng::seed_from_u64(11);
    for _ in 0..25 {
        let id = lost(&database, &receiver).await;
        let told = format!(
            "select d.id || ' ' || concat_ws(' ', tidegate.executed(r), tidegate.resolution(r), r.error)
             from tidegate.request as r join tidegate.webhook_delivery as d on d.request_id = r.id
             where r.id = '{id}'"
        );
        let mut before = database.value(&told).await;
        for _ in 0..6 {
            let finding = FINDINGS.choose(&mut random).unwrap().replace("$id", &id.to_string());
            database.execute(&format!("select from tidegate.{finding}")).await;
            let after = database.value(&told).await;
            let [(old, was), (new, is)] = [&before, &after].map(|told| told.split_once(' ').unwrap());
            assert_eq!(old != new, was != is, "{finding}\n{before}\n{after}");
            before = after;
        }
    }
}
