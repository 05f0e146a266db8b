//! Does no delivery reach an address that is not allowed, whatever a name resolves to or a redirect says?

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use reqwest::dns::{Name, Resolve, Resolving};
use tidegate::request::RequestId;
use tidegate_node::webhook::Options;

use super::{Deliverer, Receiver, quiet};
use crate::support::{TestDatabase, eventually};

/// A resolver that gives one answer after the other, and the last one for ever.
struct Names {
    answers: Vec<Vec<IpAddr>>,
    asked: Arc<AtomicUsize>,
}

impl Resolve for Names {
    fn resolve(&self, _: Name) -> Resolving {
        let asked = self.asked.fetch_add(1, Ordering::SeqCst);
        let answer = self.answers[asked.min(self.answers.len() - 1)].clone();
        let addresses = answer.into_iter().map(|address| SocketAddr::new(address, 0));
        Box::pin(async move { Ok(Box::new(addresses) as _) })
    }
}

/// Deliverers ask this one, and how often they did.
fn names(answers: &[&[&str]]) -> (Options, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let answers = answers.iter().map(|answer| answer.iter().map(|ip| ip.parse().unwrap()).collect()).collect();
    let resolver = Names { answers, asked: Arc::clone(&asked) };
    let options = Options { resolver: Arc::new(resolver), ..Options::default() };
    (options, asked)
}

async fn until_error(database: &TestDatabase, id: RequestId, words: &str) {
    eventually("the attempt was refused", || async {
        database.delivery(id, "last_error").await.is_some_and(|error| error.contains(words))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_has_a_private_address_gets_nothing_unless_its_entry_permits_it() {
    let database = TestDatabase::unlimited().await;
    database.no_backoff().await;
    let receiver = Receiver::start().await;
    let host = format!("hooks.example.com:{}", receiver.port);
    database.store.webhook_host_add(&host, false).await.unwrap();
    let id = database.ended_telling(&format!("http://{host}/done")).await;
    let (options, asked) = names(&[&["127.0.0.1"]]);
    let _deliverer = Deliverer::with(&database, options);

    until_error(&database, id, "private address 127.0.0.1").await;
    database.until_delivery_is(id, "failed").await;
    assert_eq!(receiver.count(), 0);
    assert_eq!(asked.load(Ordering::SeqCst), 8, "an answer may change");

    assert!(!database.store.webhook_host_add(&host, true).await.unwrap());
    database.store.webhook_redeliver(id).await.unwrap();
    database.until_delivery_is(id, "delivered").await;
    assert_eq!(receiver.received()[0].header("host"), host);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_with_one_address_that_may_not_be_reached_gets_nothing() {
    for (answer, allow_private, word) in [
        (&["1.1.1.1", "10.0.0.1"][..], false, "10.0.0.1"),
        (&["169.254.169.254"][..], true, "169.254.169.254"),
        (&["127.0.0.1", "::"][..], true, "::"),
        (&["::ffff:169.254.169.254"][..], true, "169.254.169.254"),
        (&["64:ff9b::a00:1"][..], false, "64:ff9b::a00:1"),
    ] {
        let database = TestDatabase::unlimited().await;
        let receiver = Receiver::start().await;
        let host = format!("hooks.example.com:{}", receiver.port);
        database.store.webhook_host_add(&host, allow_private).await.unwrap();
        let id = database.ended_telling(&format!("http://{host}/done")).await;
        let (options, _) = names(&[answer]);
        let _deliverer = Deliverer::with(&database, options);

        until_error(&database, id, word).await;
        assert_eq!(receiver.count(), 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_changes_its_address_is_judged_by_the_one_that_is_connected_to() {
    let database = TestDatabase::unlimited().await;
    database.no_backoff().await;
    database.execute("update tidegate.webhook_policy set attempts = 4, timeout_ms = 300").await;
    let receiver = Receiver::start().await;
    let host = format!("hooks.example.com:{}", receiver.port);
    database.store.webhook_host_add(&host, false).await.unwrap();
    let id = database.ended_telling(&format!("http://{host}/done")).await;
    // Allowed at the first resolution, forbidden at the second. No server listens at the allowed address.
    let (options, asked) = names(&[&["192.31.196.1"], &["127.0.0.1"]]);
    let _deliverer = Deliverer::with(&database, options);

    database.until_delivery_is(id, "failed").await;
    quiet().await;
    assert_eq!(receiver.count(), 0);
    assert_eq!(asked.load(Ordering::SeqCst), 4, "one question an attempt: what was judged is what was connected to");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_in_the_url_is_judged_too() {
    let database = TestDatabase::unlimited().await;
    let receiver = Receiver::start().await;
    for (host, allow_private) in [
        (format!("127.0.0.1:{}", receiver.port), false),
        (format!("[::ffff:7f00:1]:{}", receiver.port), false),
        ("169.254.169.254".to_owned(), true),
        ("2130706433".to_owned(), true),
    ] {
        database.store.webhook_host_add(&host, allow_private).await.unwrap();
        let id = database.ended_telling(&format!("http://{host}/done")).await;
        let _deliverer = Deliverer::of(&database);
        database.until_delivery_is(id, "failed").await;
        assert_eq!(database.delivery(id, "attempt").await.unwrap(), "1");
    }
    assert_eq!(receiver.count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_has_no_address_is_tried_again() {
    let database = TestDatabase::unlimited().await;
    database.store.webhook_host_add("hooks.example.com", false).await.unwrap();
    let id = database.ended_telling("https://hooks.example.com/done").await;
    let (options, _) = names(&[&[]]);
    let _deliverer = Deliverer::with(&database, options);

    until_error(&database, id, "failed to send").await;
    assert_eq!(database.delivery(id, "state").await.unwrap(), "pending");
}
