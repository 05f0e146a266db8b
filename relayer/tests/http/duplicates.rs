//! S3: requests that are the same.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures_util::future::join_all;
use serde_json::json;
use tidegate::stage::{Check, Sent};
use tidegate_fhevm::{
    labels::Label,
    request::Family::{self, DelegatedUserDecrypt, InputProof, UserDecrypt},
};

use super::{
    node::{Node, body, database, taken, with, work},
    support::eventually,
};

/// The same request with another signature and another validity.
fn duplicate(family: Family, number: usize) -> serde_json::Value {
    let mut duplicate = body(family);
    match family {
        UserDecrypt => duplicate["requestValidity"]["startTimestamp"] = json!((1_700_000_000 + number).to_string()),
        DelegatedUserDecrypt => duplicate["durationDays"] = json!((1 + number).to_string()),
        _ => return duplicate,
    }
    duplicate["signature"] = json!(format!("{number:0130x}"));
    duplicate
}

#[tokio::test]
async fn s3_a_hundred_duplicates_at_once_on_two_nodes_are_one_job_and_one_send() {
    let database = database().await;
    let nodes = [Node::start(&database).await, Node::start(&database).await];
    let sends = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&sends);
    let send = move || {
        counted.fetch_add(1, Ordering::Relaxed);
        taken()
    };
    let _worker = work(&database, || Check::Ready, send).await;
    for family in Family::ALL {
        sends.store(0, Ordering::Relaxed);
        let submissions = (0..100).map(|number| {
            let node = &nodes[number % 2];
            async move { node.post(family, &duplicate(family, number)).await.job() }
        });
        let jobs: BTreeSet<_> = join_all(submissions).await.into_iter().collect();
        assert_eq!(jobs.len(), 1, "{family:?}");
        let job = jobs.first().unwrap().parse().unwrap();
        eventually("it is sent", || async { database.status(job).await == "receipt_received" }).await;
        assert_eq!(sends.load(Ordering::Relaxed), 1, "{family:?}");
    }
}

#[tokio::test]
async fn s3_a_duplicate_that_has_a_result_is_polled_at_once() {
    let database = database().await;
    let node = Node::start(&database).await;
    let worker =
        work(&database, || Check::Ready, || Sent::response(json!({"accepted": false, "extraData": "0x00"}))).await;
    let job = node.post(InputProof, &body(InputProof)).await.job();
    node.wait(InputProof, &job).await;
    worker.stop().await.unwrap();

    let again = node.post(InputProof, &body(InputProof)).await;

    assert_eq!((again.retry_after(), again.job()), (1, job));
    // A request that was taken for another would be as long in coming.
    let other = with(InputProof, "/ciphertextWithInputVerification", json!("00"));
    assert_ne!(node.post(InputProof, &other).await.job(), again.job());
}

#[tokio::test]
async fn s3_a_duplicate_that_has_failed_or_run_out_of_time_does_not_count() {
    let database = database().await;
    let node = Node::start(&database).await;
    let first = node.post(UserDecrypt, &body(UserDecrypt)).await.job();
    database.execute(&format!("select tidegate.time_out(array['{first}'::uuid])")).await;
    assert_eq!(node.poll(UserDecrypt, &first).await.label(), "readiness_check_timed_out");

    let second = node.post(UserDecrypt, &body(UserDecrypt)).await.job();
    assert_ne!(second, first);
    let worker = work(&database, || Check::Failed(Label::NotAllowedOnHostAcl.error()), taken).await;
    assert_eq!(node.wait(UserDecrypt, &second).await.label(), "not_allowed_on_host_acl");
    worker.stop().await.unwrap();

    let third = node.post(UserDecrypt, &body(UserDecrypt)).await.job();
    assert!(![first.clone(), second].contains(&third));
    // The first still says how it ended.
    assert_eq!(node.poll(UserDecrypt, &first).await.status, 503);
    assert_eq!(node.post(UserDecrypt, &body(UserDecrypt)).await.job(), third);
}

#[tokio::test]
async fn s3_a_user_and_a_delegate_with_the_same_addresses_are_no_duplicates() {
    let database = database().await;
    let node = Node::start(&database).await;
    let mut jobs = BTreeSet::new();
    for family in Family::ALL {
        assert!(jobs.insert(node.post(family, &body(family)).await.job()));
    }
}
