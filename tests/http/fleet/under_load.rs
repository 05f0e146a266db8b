//! Do a hundred callers at three nodes pass no mark, and is every flip announced once?

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use serde_json::{Value, json};
use sqlx::postgres::PgListener;

use super::{all_say, fleet, reject, stage};
use crate::support::{
    campaign, eventually,
    race::{DEPTH, Session, sound},
    rest,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_callers_at_three_nodes_never_pass_the_mark_and_every_flip_is_told_once() {
    let database = stage().await;
    let fleet = fleet(&database, 3).await;
    let mut listener = PgListener::connect(&database.url).await.unwrap();
    listener.listen("tidegate_gate").await.unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let mut watch = Session::open(&database).await;
    let watched = tokio::spawn({
        let over = Arc::clone(&over);
        async move {
            let mut deepest = 0;
            while !over.load(Ordering::SeqCst) {
                let depth = watch.text(DEPTH).await;
                deepest = deepest.max(depth.parse::<i64>().unwrap());
                rest().await;
            }
            deepest
        }
    });
    let mut workers = Vec::new();
    for _ in 0..3 {
        let mut session = Session::open(&database).await;
        let over = Arc::clone(&over);
        workers.push(tokio::spawn(async move {
            // Not before the callers have reached the mark: else work may keep up with them.
            while session.text("select state from tidegate.gate where name = 'tx'").await == "accepting" {
                rest().await;
            }
            while !over.load(Ordering::SeqCst) {
                let held = session.claim("tx", 1).await;
                if !held.is_empty() {
                    reject(&mut session, &held).await;
                }
            }
        }));
    }
    let taken = Arc::new(AtomicUsize::new(0));
    let callers = (0..100).map(|number: usize| {
        let api = &fleet[number % 3].api;
        let (client, single, batch) = (api.client.clone(), api.url("/v1/direct"), api.url("/v1/direct/batch"));
        let taken = Arc::clone(&taken);
        tokio::spawn(async move {
            let mut round = 0;
            while taken.load(Ordering::SeqCst) < campaign(90, 400) {
                round += 1;
                let (posting, count) = match (number + round) % 10 {
                    0 => (client.post(&batch).json(&vec![1; 7]), 7),
                    1 => {
                        let key = format!("{number}-{round}");
                        (client.post(&single).header("idempotency-key", key).json(&1), 1)
                    }
                    _ => (client.post(&single).json(&1), 1),
                };
                let status = posting.send().await.unwrap().status();
                assert!(status == 202 || status == 429, "{status}");
                if status == 202 {
                    taken.fetch_add(count, Ordering::SeqCst);
                } else {
                    rest().await;
                }
            }
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap();
    }
    let served = || async { database.number(DEPTH).await == 0 };
    eventually("everything has been served", served).await;
    over.store(true, Ordering::SeqCst);
    for worker in workers {
        worker.await.unwrap();
    }

    let deepest = watched.await.unwrap();
    assert!(deepest <= 30, "{deepest} messages were in the queue");
    let mut session = Session::open(&database).await;
    session.execute("select tidegate.gates_evaluate()").await;
    let history = session
        .texts(
            "select h.signal, h.depth, h.epoch from tidegate.gate_history as h
             where h.gate = 'tx' order by h.epoch",
        )
        .await;
    assert!(history.len() >= 2, "{history:?}");
    let mut at_the_mark = 0;
    for (place, flip) in history.iter().enumerate() {
        let [signal, depth, epoch] = flip.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{flip}");
        };
        let depth: i64 = depth.parse().unwrap();
        let (expected, at) = [("TOO_MANY_REQUESTS", 30), ("ACCEPTING_REQUESTS", 15)][place % 2];
        assert_eq!((signal, epoch), (expected, &*(place + 1).to_string()), "{history:?}");
        // A settle that began while the gate was open, and commits after others have come near the mark, takes it below.
        assert!(depth == at || (depth < at && at == 15), "{history:?}");
        at_the_mark += i32::from(depth == at);
        let told = listener.recv().await.unwrap();
        let told: Value = serde_json::from_str(told.payload()).unwrap();
        assert_eq!(told, json!({"queue": "tx", "signal": signal, "depth": depth, "epoch": place + 1}));
    }
    // All closings, and half of the openings.
    assert!(at_the_mark * 4 >= 3 * i32::try_from(history.len()).unwrap() - 2, "{history:?}");
    all_say(&fleet, true).await;
    let marker = "select pg_notify('tidegate_gate', 'the last')";
    session.execute(marker).await;
    // Nothing else was told.
    assert_eq!(listener.recv().await.unwrap().payload(), "the last");
    sound(&database).await;
}
