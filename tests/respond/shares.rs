//! Do shares complete a request exactly once, whatever their order and however many bring them?

use rand::seq::SliceRandom;
use tidegate::request::RequestId;

use crate::support::{
    TestDatabase,
    race::{Session, receipt, settle, sound},
};

fn share(id: RequestId, part: &str) -> String {
    format!("select outcome from tidegate.respond('{{\"share\": \"{part}\"}}', id => '{id}', part => '{part}')")
}

async fn threshold_reached_times(database: &TestDatabase, id: RequestId) -> usize {
    let causes = database.causes(id).await;
    causes.iter().filter(|cause| *cause == "threshold_reached").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn four_shares_in_any_order_complete_at_the_third() {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    let mut order = [0, 1, 2, 3];
    // All 24 permutations, by Heap's algorithm without recursion.
    let mut counters = [0; 4];
    let mut at = 0;
    let mut permutations = vec![order];
    while at < 4 {
        if counters[at] < at {
            let with = if at % 2 == 0 { 0 } else { counters[at] };
            order.swap(with, at);
            permutations.push(order);
            counters[at] += 1;
            at = 0;
        } else {
            counters[at] = 0;
            at += 1;
        }
    }
    assert_eq!(permutations.len(), 24);

    for order in permutations {
        let id = receipt(&database, "user_decrypt", None).await;
        let mut outcomes = Vec::new();
        for part in order {
            outcomes.extend(session.texts(&share(id, &part.to_string())).await);
        }
        assert_eq!(outcomes, ["stored", "stored", "completed", "late"], "{order:?}");
        assert_eq!(threshold_reached_times(&database, id).await, 1);
        let shares = session
            .texts(&format!(
                "select jsonb_object_keys(response -> 'shares') from tidegate.request where id = '{id}' order by 1"
            ))
            .await;
        let mut first = order[..3].to_vec();
        first.sort_unstable();
        assert_eq!(shares, first.iter().map(ToString::to_string).collect::<Vec<_>>());
    }
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shares_from_many_connections_at_once_complete_each_request_once() {
    let database = TestDatabase::unlimited().await;
    let mut ids = Vec::new();
    for _ in 0..20 {
        ids.push(receipt(&database, "user_decrypt", None).await);
    }
    let mut tasks = Vec::new();
    for _ in 0..6 {
        let mut mine: Vec<_> =
            ids.iter().flat_map(|id| (0..5).map(move |part| share(*id, &part.to_string()))).collect();
        mine.shuffle(&mut rand::rng());
        let mut session = Session::open(&database).await;
        tasks.push(tokio::spawn(async move {
            let mut completed = 0;
            for sql in mine {
                let outcome = session.text(&sql).await;
                completed += usize::from(outcome == "completed");
            }
            completed
        }));
    }
    let mut completed = 0;
    for task in tasks {
        completed += task.await.unwrap();
    }

    assert_eq!(completed, ids.len());
    for id in ids {
        assert_eq!(threshold_reached_times(&database, id).await, 1);
        assert_eq!(
            database.number(&format!("select count(*) from tidegate.response_part where request_id = '{id}'")).await,
            3
        );
    }
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_last_shares_at_once_the_second_waits_and_counts_the_first() {
    for commits in [true, false] {
        let database = TestDatabase::unlimited().await;
        let id = receipt(&database, "user_decrypt", None).await;
        let mut first = Session::open(&database).await;
        first.texts(&share(id, "1")).await;
        first.execute("begin").await;
        assert_eq!(first.text(&share(id, "2")).await, "stored");

        let second = Session::open(&database).await.start(&share(id, "3"));
        second.until_blocked_by(&database, &first).await;
        if commits {
            first.commit().await;
        } else {
            first.rollback().await;
        }
        let (mut second, outcome) = second.finish().await;

        assert_eq!(outcome, [if commits { "completed" } else { "stored" }]);
        if !commits {
            assert_eq!(second.text(&share(id, "2")).await, "completed");
        }
        assert_eq!(threshold_reached_times(&database, id).await, 1);
        sound(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_share_given_twice_counts_once_even_at_once() {
    let database = TestDatabase::unlimited().await;
    let id = receipt(&database, "user_decrypt", None).await;
    let mut first = Session::begin(&database).await;
    assert_eq!(first.text(&share(id, "1")).await, "stored");
    let second = Session::open(&database).await.start(&share(id, "1"));
    second.until_blocked_by(&database, &first).await;
    first.commit().await;
    assert_eq!(second.finish().await.1, ["duplicate"]);

    assert_eq!(first.text(&share(id, "1")).await, "duplicate");
    assert_eq!(first.text(&share(id, "2")).await, "stored");
    assert_eq!(database.status(id).await, "receipt_received");
    assert_eq!(first.text(&share(id, "3")).await, "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn early_shares_and_their_duplicates_count_when_the_receipt_comes() {
    let database = TestDatabase::unlimited().await;
    let id = database.submit("user_decrypt").await;
    let mut session = Session::open(&database).await;
    assert_eq!(session.text(&share(id, "1")).await, "early");
    assert_eq!(session.text(&share(id, "1")).await, "early");
    let held = session.claim("readiness", 1).await;
    session.texts(&settle("settle_passed", &held, "")).await;
    let held = session.claim("tx", 1).await;
    assert_eq!(session.text(&share(id, "2")).await, "early");
    session.texts(&settle("settle_receipt", &held, "")).await;

    assert_eq!(database.status(id).await, "receipt_received");
    assert_eq!(database.number("select count(*) from tidegate.response_inbox").await, 0);
    assert_eq!(session.text(&share(id, "3")).await, "completed");
}
