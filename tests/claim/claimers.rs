//! Do claimers share nothing and lose nothing?

use std::collections::BTreeMap;

use tidegate::request::RequestId;

use crate::support::{
    TestDatabase, campaign,
    race::{Held, Session, expire_leases, history, settle, sound, submit_many},
};

const QUEUES: [(&str, &str); 2] = [("readiness", "public_decrypt"), ("tx", "direct")];

/// Claims until three claims in a row found nothing.
async fn drain(mut session: Session, queue: &'static str, batch: i32) -> Vec<Vec<Held>> {
    let mut claims = Vec::new();
    let mut empty = 0;
    while empty < 3 {
        let claim = session.claim(queue, batch).await;
        if claim.is_empty() {
            empty += 1;
        } else {
            empty = 0;
            claims.push(claim);
        }
    }
    claims
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_claimers_share_no_request_and_lose_none() {
    for (queue, kind) in QUEUES {
        for (claimers, batch) in [(2, 7), (8, 50)] {
            let database = TestDatabase::unlimited().await;
            let ids = submit_many(&database, kind, campaign(600, 3000)).await;
            let mut tasks = Vec::new();
            for _ in 0..claimers {
                let session = Session::open(&database).await;
                tasks.push(tokio::spawn(drain(session, queue, batch)));
            }

            let mut seen = BTreeMap::<RequestId, u32>::new();
            for task in tasks {
                for claim in task.await.unwrap() {
                    assert!(claim.is_sorted_by_key(|held| held.msg_id), "not in order: {claim:?}");
                    assert!(claim.len() <= usize::try_from(batch).unwrap());
                    for held in claim {
                        assert_eq!(held.attempt, 1);
                        *seen.entry(held.id).or_default() += 1;
                    }
                }
            }
            assert_eq!(seen.values().max(), Some(&1), "{claimers} claimers of {queue} shared a request");
            assert_eq!(seen.len(), ids.len(), "{claimers} claimers of {queue} lost requests");
            sound(&database).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lone_claimer_gets_requests_in_the_order_of_their_submission() {
    for (queue, kind) in QUEUES {
        let database = TestDatabase::unlimited().await;
        let ids = submit_many(&database, kind, 300).await;

        let claims = drain(Session::open(&database).await, queue, 7).await;

        let order: Vec<_> = claims.iter().flatten().map(|held| held.id).collect();
        assert_eq!(order, ids);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_rolled_back_gives_everything_back() {
    for (queue, kind) in QUEUES {
        let database = TestDatabase::unlimited().await;
        let ids = submit_many(&database, kind, 10).await;
        let mut claimer = Session::begin(&database).await;
        assert_eq!(claimer.claim(queue, 6).await.len(), 6);

        // Meanwhile another claim takes the messages that are not locked, without waiting.
        let mut other = Session::begin(&database).await;
        let rest: Vec<_> = other.claim(queue, 10).await.iter().map(|held| held.id).collect();
        assert_eq!(rest, ids[6..]);
        other.rollback().await;
        claimer.rollback().await;

        let again = claimer.claim(queue, 20).await;
        assert_eq!(again.iter().map(|held| held.id).collect::<Vec<_>>(), ids);
        assert!(again.iter().all(|held| held.attempt == 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_claimers_of_a_lost_request_one_gets_it() {
    for (queue, kind) in QUEUES {
        let database = TestDatabase::unlimited().await;
        let id = database.submit(kind).await;
        Session::open(&database).await.claim(queue, 1).await;
        expire_leases(&database, queue).await;
        let mut first = Session::begin(&database).await;
        let mut second = Session::open(&database).await;

        assert_eq!(first.claim(queue, 1).await[0].id, id);
        assert!(second.claim(queue, 1).await.is_empty(), "it does not wait either");
        first.commit().await;
        assert!(second.claim(queue, 1).await.is_empty());
        sound(&database).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_sender_is_recovered_in_two_events_and_its_request_handed_out_again() {
    let database = TestDatabase::unlimited().await;
    let id = database.submit("direct").await;
    let mut session = Session::open(&database).await;
    let first = session.claim("tx", 1).await;
    expire_leases(&database, "tx").await;

    let second = session.claim("tx", 1).await;

    assert_eq!((second[0].id, second[0].attempt), (id, 2));
    assert_eq!(second[0].msg_id, first[0].msg_id, "at its old position");
    assert_ne!(second[0].lease, first[0].lease);
    assert_eq!(history(&database, id).await, "submitted claimed recovered claimed");
    assert!(session.texts(&settle("settle_receipt", &first, "")).await.is_empty());
    assert_eq!(session.texts(&settle("settle_receipt", &second, "")).await.len(), 1);
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_check_is_handed_out_again_and_its_old_holder_settles_nothing() {
    let database = TestDatabase::unlimited().await;
    let id = database.submit("public_decrypt").await;
    let mut session = Session::open(&database).await;
    let first = session.claim("readiness", 1).await;
    expire_leases(&database, "readiness").await;

    let second = session.claim("readiness", 1).await;

    assert_eq!((second[0].id, second[0].attempt), (id, 2));
    for (function, more) in
        [("settle_passed", ""), ("settle_snooze", ""), ("settle_failed", "null"), ("settle_released", "")]
    {
        assert!(session.texts(&settle(function, &first, more)).await.is_empty(), "{function}");
    }
    assert_eq!(history(&database, id).await, "submitted");
    assert_eq!(session.texts(&settle("settle_passed", &second, "")).await, [id.to_string()]);
}
