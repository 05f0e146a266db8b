//! Processes that are lost at the worst moments: each request is counted once, and no nonce is left out.

use std::collections::HashSet;

use rand::Rng;
use tidegate_fhevm_stand_ins::chain::Mining;

use super::{
    counter::{self, Counted},
    orders::{adopt, database},
    process::{Process, Role, Setup},
};
use crate::support::{TestDatabase, campaign, eventually};

const LEFT: &str = "select count(*) from tidegate.request where req_status <> 'completed'";

/// Waits until all requests are completed, as long as one after the other is.
async fn until_completed(database: &TestDatabase) {
    loop {
        let left = database.number(LEFT).await;
        if left == 0 {
            return;
        }
        eventually(&format!("one of {left} requests is completed"), || async move {
            database.number(LEFT).await < left
        })
        .await;
    }
}

async fn lose_processes_at(step: &str) {
    let kills = campaign(6, 50);
    let requests = 40 * kills;
    // With a block for each arrival, anvil can leave transactions that have waited for a predecessor in its pool for good.
    let (database, counted) = tokio::join!(database(), Counted::start(Mining::Every(1)));
    let wallet = adopt(&database, &counted.chain().await, 1, 64).await;
    database
        .execute(
            "update tidegate.policy set attempts = 200, base_ms = 100, factor = 1, jitter_ms = 0 where stage = 'tx'",
        )
        .await;
    let ids: Vec<uuid::Uuid> =
        sqlx::query_scalar("select s.id from tidegate.submit_batch('direct', array_fill('{}'::jsonb, array[$1])) as s")
            .bind(requests)
            .fetch_all(&database.pool)
            .await
            .unwrap();
    let setup = Setup {
        database: database.url.clone(),
        endpoints: vec![counted.anvil.url().to_string()],
        contract: counted.contract,
        keys: vec![1],
        role: Role::Work,
    };
    let keeper = Setup {
        role: Role::Keep,
        ..setup.clone()
    };
    let _keeper = Process::start(&keeper, None);
    for kill in 0..kills {
        let times = rand::rng().random_range(1..=3);
        let mut process = Process::start(&setup, Some(&format!("{step}:{times}")));
        // It ends by itself; all requests must not be done before.
        eventually(&format!("kill {kill} at {step}:{times}"), || {
            let (database, ended) = (&database, process.ended().is_some());
            async move {
                assert!(database.number(LEFT).await > 0, "too few requests for {kills} kills");
                ended
            }
        })
        .await;
    }
    let _process = Process::start(&setup, None);
    until_completed(&database).await;
    // By the chain: each request once, and as many transactions as requests.
    let names = counted.counted().await;
    let wanted: HashSet<_> = ids
        .into_iter()
        .map(|id| counter::name(tidegate::request::RequestId(id)))
        .collect();
    assert_eq!(names.iter().copied().collect::<HashSet<_>>(), wanted);
    assert_eq!(names.len(), wanted.len(), "no request was counted twice");
    assert_eq!(counted.mined(wallet).await, wanted.len() as u64);
    let longest = "select extract(epoch from max(a.sent_at - t.signed_at)) * 1000
                   from evm.tx as t join evm.attempt as a using (wallet, nonce)";
    let longest = database.number(longest).await;
    assert!(longest <= 2000, "a nonce was unused for {longest} ms");
    let nonces = "select count(distinct nonce) = count(*) and max(nonce) + 1 = count(*) and min(nonce) = 0 from evm.tx";
    assert_eq!(database.text(nonces).await.unwrap(), "true");
}

#[tokio::test(flavor = "multi_thread")]
async fn before_the_commit() {
    lose_processes_at("signed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn between_the_commit_and_the_broadcast() {
    lose_processes_at("committed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn between_the_broadcast_and_its_record() {
    lose_processes_at("sent").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn between_the_mining_and_the_settle() {
    lose_processes_at("mined").await;
}
