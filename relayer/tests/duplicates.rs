//! S3 on a chain: requests that are the same have one job and one transaction.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use reqwest::StatusCode;
use serde_json::Value;
use tidegate_fhevm_stand_ins::{Behaviour, workload::Work};

use crate::{relayer::Relayer, support::eventually};

/// One of each family.
const NUMBERS: [u64; 4] = [0, 2, 3, 4];

impl Relayer {
    /// Makes all parties answer, or none.
    fn answer(&self, is_answering: bool) {
        let nodes = self.network.kms.nodes().iter().chain(self.network.coprocessor.nodes());
        for node in nodes {
            node.behave(Behaviour { silent: !is_answering, ..Behaviour::default() });
        }
    }

    /// Submits a hundred duplicates at once, on both nodes; returns their job.
    async fn submit_duplicates(&self, duplicates: &[Work; 2]) -> String {
        let http = reqwest::Client::new();
        let submissions = (0..100).map(|number| {
            // Each node gets both.
            let (node, duplicate) = (&self.nodes[number % 2], &duplicates[number / 2 % 2]);
            let url = node.url.as_ref().unwrap().join(duplicate.path).unwrap();
            let call = http.post(url).json(&duplicate.body).send();
            async move {
                let answer = call.await.unwrap();
                assert_eq!(answer.status(), StatusCode::ACCEPTED);
                let body: Value = answer.json().await.unwrap();
                body["result"]["jobId"].as_str().unwrap().to_owned()
            }
        });
        let jobs: BTreeSet<_> = join_all(submissions).await.into_iter().collect();
        assert_eq!(jobs.len(), 1, "{jobs:?}");
        jobs.into_iter().next().unwrap()
    }

    async fn submit_all_duplicates(&self, works: &[[Work; 2]]) -> Vec<String> {
        join_all(works.iter().map(|duplicates| self.submit_duplicates(duplicates))).await
    }

    /// Waits until so many requests have receipts.
    async fn until_mined(&self, requests: i64) {
        let mined = "select count(*) from tidegate.request where receipt_received_at is not null";
        eventually("they are mined", || async { self.database.number(mined).await == requests }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_duplicates_at_once_on_two_nodes_are_one_transaction_and_a_failed_one_does_not_count() {
    let relayer = Relayer::start().await;
    relayer.answer(false);
    let first = NUMBERS.map(|number| relayer.work(number));
    // A second later, permits begin later, and have another signature.
    let later = || relayer.work(3);
    eventually("a second has passed", || async { later().body != first[2].body }).await;
    let works: Vec<_> = first.into_iter().zip(NUMBERS).map(|(work, number)| [work, relayer.work(number)]).collect();

    let jobs = relayer.submit_all_duplicates(&works).await;
    relayer.until_mined(4).await;
    relayer.assert_sent(4).await;
    assert_eq!(relayer.submit_all_duplicates(&works).await, jobs, "they are live");

    relayer.database.execute("select tidegate.time_out(array_agg(id)) from tidegate.request").await;
    let again = relayer.submit_all_duplicates(&works).await;
    assert!(again.iter().all(|job| !jobs.contains(job)), "{again:?}");
    relayer.until_mined(8).await;
    relayer.assert_sent(8).await;

    relayer.answer(true);
    let client = relayer.client();
    for ([_, duplicate], job) in works.iter().zip(&again) {
        let outcome = client.run(duplicate.path, &duplicate.body).await.unwrap();
        assert_eq!(outcome.job, *job);
        duplicate.check(&outcome.ended, relayer.network.user_threshold).unwrap();
    }
    assert_eq!(relayer.submit_all_duplicates(&works).await, again, "they are completed");
    relayer.assert_sent(8).await;
}
