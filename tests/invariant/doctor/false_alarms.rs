//! Does `doctor` find nothing while a fleet works, and in states that are legal for a moment?

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use rand::{SeedableRng, rngs::StdRng};

use super::{VIOLATIONS, lived_in};
use crate::{
    cli::commands::{out, run},
    support::{
        TestDatabase,
        actors::{ACTS, KINDS, Shared, perform, settle_down},
        campaign,
        race::{NOTHING, Session, submit_many},
        until_blocked,
    },
};

/// Everything that workers and callers do; not what operators do, which may well leave something to be found.
const FLEET: [&str; 19] = [
    "claim_readiness",
    "claim_tx",
    "claim_readiness",
    "claim_tx",
    "settle_passed",
    "settle_snooze",
    "settle_failed",
    "settle_receipt",
    "settle_retry",
    "settle_rejected",
    "release_tx",
    "extend",
    "cancel",
    "respond_by_id",
    "respond_by_reference",
    "submit",
    "submit_batch",
    "recover",
    "maintain",
];

#[tokio::test(flavor = "multi_thread")]
async fn while_a_fleet_works_there_is_no_false_alarm() {
    assert!(FLEET.iter().all(|act| ACTS.contains(act)));
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "update tidegate.policy set base_ms = 5, factor = 1, cap_ms = 5, jitter_ms = 0;
             update tidegate.maintenance set period = '1 millisecond';
             update tidegate.gate set high_water = 60, low_water = 40;
             select tidegate.make_partitions()",
        )
        .await;
    let mut shared = Arc::new(Shared::default());
    Arc::get_mut(&mut shared).unwrap().gates_flip = true;
    for kind in KINDS {
        let ids = submit_many(&database, kind, 10).await;
        shared.ids.lock().unwrap().extend(ids);
    }
    let done = Arc::new(AtomicBool::new(false));
    let mut tasks = Vec::new();
    for actor in 0..4 {
        let mut session = Session::open(&database).await;
        let (shared, done) = (Arc::clone(&shared), Arc::clone(&done));
        tasks.push(tokio::spawn(async move {
            let mut random = StdRng::seed_from_u64(actor);
            let mut acts = 0;
            while !done.load(Ordering::Relaxed) || acts < 100 {
                let act = FLEET[rand::Rng::random_range(&mut random, 0..FLEET.len())];
                let error = perform(act, &mut session, &shared, &mut random).await;
                assert_eq!(error, None);
                acts += 1;
            }
        }));
    }

    let mut doctor = Session::open(&database).await;
    for _ in 0..campaign(5, 12) {
        assert_eq!(
            doctor.texts("select name, violations, samples, query from tidegate.invariant_violation").await,
            NOTHING
        );
    }
    done.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
    settle_down(&database).await;
    assert_eq!(doctor.texts(VIOLATIONS).await, NOTHING);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_that_is_legal_for_a_moment_is_no_violation() {
    let (database, mut session) = lived_in().await;
    // A mark that was lowered just now, a quota that was removed before its requests ended, a deadline and a
    // response of this moment.
    database.past_triggers("update tidegate.gate set changed_at = '2026-01-01'").await;
    session
        .execute(
            "update pgmq.q_readiness set enqueued_at = enqueued_at - interval '1 hour';
             update tidegate.gate set high_water = 2, low_water = 1 where queue = 'readiness';
             select tidegate.quota_remove('kind input_proof');
             update tidegate.request set deadline_at = now() where req_status = 'processing';
             insert into tidegate.response_inbox (reference, response) values ('awaited', '1')",
        )
        .await;

    assert_eq!(session.texts(VIOLATIONS).await, NOTHING);
    database.execute("call tidegate.maintain()").await;
    assert_eq!(session.texts(VIOLATIONS).await, NOTHING);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_that_goes_meanwhile_is_no_violation() {
    let (database, _session) = lived_in().await;
    database.execute("insert into tidegate.queue (name, stage) values ('short_lived', 'tx')").await;
    let mut holder = Session::begin(&database).await;
    holder.execute("lock table pgmq.q_readiness").await;

    let url = database.url.clone();
    let doctor = tokio::spawn(async move { run(&url, &["doctor"]).await });
    until_blocked(&database, 1).await;
    database.execute("delete from tidegate.queue where name = 'short_lived'").await;
    holder.rollback().await;

    let said = doctor.await.unwrap();
    assert_eq!(said.status.code(), Some(0), "{}", out(&said));
}
