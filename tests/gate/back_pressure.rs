//! Do gates close and open by themselves, at their marks only, once each, however many come and go at once?

mod batches;
mod passing;
mod retry_after;
mod waits;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use sqlx::postgres::PgListener;

use crate::support::{
    TestDatabase, campaign, eventually,
    race::{DEPTH, NOTHING, Session, expire_leases, leases, sound},
    rest,
};

/// The marks of the seed, on both queues, and refusals as computed, without jitter.
async fn stage() -> TestDatabase {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "update tidegate.gate set high_water = 30, low_water = 15;
             update tidegate.setting set jitter = 0",
        )
        .await;
    database
}

const STATE: &str = "select g.state || ' ' || g.depth || ' ' || g.epoch from tidegate.gate as g where g.name = 'tx'";

/// Of fewer openings, the share at the low-water mark is chance.
const OPENINGS_MIN: usize = 20;

const HISTORY: &str =
    "select h.signal || ' ' || h.depth from tidegate.gate_history as h where h.gate = 'tx' order by h.epoch";

async fn outcomes(session: &mut Session, call: &str) -> Vec<String> {
    session.texts(&format!("select outcome from tidegate.{call}")).await
}

/// Serves so many requests, one by one.
async fn serve(session: &mut Session, count: usize) {
    for _ in 0..count {
        let held = session.claim("tx", 1).await;
        settle(session, &held).await;
    }
}

async fn settle(session: &mut Session, held: &[crate::support::race::Held]) {
    session.texts(&format!("select id from tidegate_internal.settle_rejected({}, null)", leases(held))).await;
}

fn batch(kind: &str, count: usize) -> String {
    format!("submit_batch('{kind}', array_fill('{{}}'::jsonb, array[{count}]))")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_ends_requests_counts_those_that_it_takes() {
    let database = stage().await;
    let mut session = Session::open(&database).await;
    outcomes(&mut session, &batch("direct", 30)).await;
    let late = "update tidegate.request set deadline_at = clock_timestamp() - interval '1 s'
                where id in (select id from tidegate.request order by id limit ";
    session.execute(&format!("{late} 1)")).await;

    assert_eq!(session.claim("tx", 30).await.len(), 29);
    assert_eq!(session.text(STATE).await, "too_many_requests 30 1");

    // Of the ended leases a claim takes five, ends nineteen, and releases five.
    session.execute(&format!("{late} 20)")).await;
    expire_leases(&database, "tx").await;
    assert_eq!(session.claim("tx", 5).await.len(), 5);
    assert_eq!(session.text(STATE).await, "accepting 10 2");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_that_ends_requests_under_a_lease_opens_the_gate() {
    let database = stage().await;
    database.execute("update tidegate.policy set semantics = 'at_most_once' where kind = 'direct'").await;
    let mut session = Session::open(&database).await;
    outcomes(&mut session, &batch("direct", 30)).await;
    assert_eq!(session.claim("tx", 20).await.len(), 20);
    expire_leases(&database, "tx").await;

    session.texts("select ended from tidegate.recover()").await;

    assert_eq!(session.text(STATE).await, "accepting 10 2");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gate_closes_at_the_high_mark_and_opens_at_the_low_one() {
    let database = stage().await;
    let mut session = Session::open(&database).await;
    for _ in 0..30 {
        assert_eq!(outcomes(&mut session, "submit('direct', '{}')").await, ["accepted"]);
    }
    assert_eq!(session.text(STATE).await, "too_many_requests 30 1");
    for served in [0, 1, 13] {
        serve(&mut session, served).await;
        assert_eq!(outcomes(&mut session, "submit('direct', '{}')").await, ["refused"]);
    }

    serve(&mut session, 1).await;
    assert_eq!(session.text(STATE).await, "accepting 15 2");
    for _ in 0..15 {
        assert_eq!(outcomes(&mut session, "submit('direct', '{}')").await, ["accepted"]);
    }
    assert_eq!(session.text(STATE).await, "too_many_requests 30 3");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decrypt_enters_by_its_first_queue_and_closes_the_second_by_passing() {
    let database = stage().await;
    let mut session = Session::open(&database).await;
    assert_eq!(outcomes(&mut session, &batch("direct", 29)).await, ["accepted"; 29]);
    assert_eq!(outcomes(&mut session, &batch("public_decrypt", 29)).await, ["accepted"; 29]);
    let held = session.claim("readiness", 5).await;
    session.texts(&format!("select id from tidegate_internal.settle_passed({})", leases(&held))).await;
    // Admission `accepted` is never refused, so beyond the mark.
    assert_eq!(session.text(STATE).await, "too_many_requests 34 1");
    for kind in ["public_decrypt", "direct"] {
        assert_eq!(outcomes(&mut session, &format!("submit('{kind}', '{{}}')")).await, ["refused"], "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn removing_messages_opens_the_gate() {
    let database = stage().await;
    let mut session = Session::open(&database).await;
    for remove in [
        "select tidegate.cancel(r.id) from tidegate.request as r where r.queue = 'tx' limit 15",
        "select tidegate.fail_tx(array(select r.id from tidegate.request as r where r.queue = 'tx' limit 15))",
        "update tidegate.request set deadline_at = clock_timestamp() where id in (select id from tidegate.request where queue = 'tx' limit 15);
         select tidegate.expire_by_deadline()",
        "delete from pgmq.q_tx where msg_id in (select msg_id from pgmq.q_tx limit 15); select tidegate.gates_evaluate()",
        "update tidegate.gate set low_water = 30, high_water = 40; select tidegate.gates_evaluate()",
    ] {
        while session.text(STATE).await.starts_with("accepting") {
            outcomes(&mut session, "submit('direct', '{}')").await;
        }
        session.execute(remove).await;
        assert!(session.text(STATE).await.starts_with("accepting"), "{remove}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_that_is_held_by_hand_stays_until_it_is_released() {
    let database = stage().await;
    let mut session = Session::open(&database).await;
    session.execute("select tidegate.gate_force('tx', 'accepting', 'ann')").await;
    assert_eq!(outcomes(&mut session, &batch("direct", 100)).await, ["accepted"; 100]);
    session.execute("select tidegate.gates_evaluate()").await;
    assert_eq!(session.text(STATE).await, "accepting 0 1");
    // Above the mark it closes as it is let go.
    session.execute("select tidegate.gate_force('tx', null)").await;
    assert_eq!(session.text(STATE).await, "too_many_requests 100 2");
    session.execute("select tidegate.gate_force('tx', 'too_many_requests')").await;
    serve(&mut session, 100).await;
    session.execute("select tidegate.gates_evaluate()").await;
    assert_eq!(session.text(STATE).await, "too_many_requests 100 3");
    session.execute("select tidegate.gate_force('tx', null)").await;
    assert_eq!(session.text(STATE).await, "accepting 0 4");
    assert_eq!(
        session
            .texts("select cause || ' ' || depth || ' ' || (actor = 'ann') || ' ' || is_current from tidegate.gate_history order by epoch")
            .await,
        [
            "forced open 0 true false",
            "released 100 false false",
            "forced closed 100 false false",
            "released 0 false true"
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_given_back_whose_claim_was_deleted_by_hand_takes_its_room_again() {
    for back in ["tidegate_internal.settle_released(LEASES)", "tidegate_internal.settle_retry(LEASES, null, null)"] {
        let database = stage().await;
        let mut session = Session::open(&database).await;
        assert_eq!(outcomes(&mut session, "submit('direct', '{}')").await, ["accepted"]);
        let held = session.claim("tx", 1).await;
        database.execute("delete from tidegate.claim").await;
        // The gate knows its number as dead from here on.
        session.execute("select tidegate_internal.refresh_offset('tx', true)").await;
        assert_eq!(outcomes(&mut session, &batch("direct", 29)).await, ["accepted"; 29]);
        let back = back.replace("LEASES", &leases(&held));
        assert_eq!(session.texts(&format!("select id from {back}")).await.len(), 1);
        assert_eq!(session.text(DEPTH).await, "30", "{back}");
        assert_eq!(outcomes(&mut session, "submit('direct', '{}')").await, ["refused"]);
        sound(&database).await;
    }
}

/// Makes an internal function wait, before it does its work, for a lock that the session holds.
async fn hold(database: &TestDatabase, function: &str, takes: &str, returns: &str) -> Session {
    let passed: Vec<_> = (1..=takes.split(',').count()).map(|number| format!("${number}")).collect();
    database
        .execute(&format!(
            "alter function tidegate_internal.{function} rename to held;
             create function tidegate_internal.{function}({takes}) returns {returns} language plpgsql as $$
             begin
               perform pg_advisory_xact_lock_shared(1);
               return tidegate_internal.held({});
             end $$",
            passed.join(", ")
        ))
        .await;
    let mut session = Session::begin(database).await;
    session.execute("select pg_advisory_xact_lock(1)").await;
    session
}

/// With a quota that never limits: but its submissions come one after the other.
async fn with_quota(database: &TestDatabase) {
    database.execute("select tidegate.quota_set(kind => 'direct', high_water => 1000)").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_read_the_gates_before_anything_is_set_up() {
    let database = TestDatabase::uninitialised().await;
    assert_eq!(database.store.gate_copy().await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_queue_keeps_no_other_gate_closed() {
    let database = stage().await;
    let mut session = Session::open(&database).await;
    outcomes(&mut session, &batch("direct", 30)).await;
    session
        .execute("select pgmq.drop_queue('readiness'); delete from pgmq.q_tx; select tidegate.gates_evaluate()")
        .await;
    assert_eq!(session.text(STATE).await, "accepting 0 2");
}

/// The notifications on the gates' channel, and whether there are no more.
async fn heard(listener: &mut PgListener, database: &TestDatabase) -> Vec<String> {
    database.execute("select pg_notify('tidegate_gate', 'over')").await;
    let mut heard = Vec::new();
    loop {
        let said = listener.recv().await.unwrap().payload().to_owned();
        if said == "over" {
            return heard;
        }
        let said: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert_eq!(said["queue"], "tx", "{said}");
        heard.push(format!("{} {}", said["signal"].as_str().unwrap(), said["depth"]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_at_once_never_pass_the_mark_and_every_flip_is_told_once() {
    let database = stage().await;
    let mut listener = PgListener::connect(&database.url).await.unwrap();
    listener.listen("tidegate_gate").await.unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let openings = Arc::new(AtomicUsize::new(0));

    let mut watch = Session::open(&database).await;
    let watched = tokio::spawn({
        let (over, openings) = (Arc::clone(&over), Arc::clone(&openings));
        async move {
            let mut deepest = 0;
            while !over.load(Ordering::SeqCst) {
                let depth: i64 = watch.text(DEPTH).await.parse().unwrap();
                deepest = deepest.max(depth);
                openings.store(watch.texts(HISTORY).await.len() / 2, Ordering::SeqCst);
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
            // However fast they are: they leave the gate time to close once.
            while session.texts(HISTORY).await.is_empty() {
                rest().await;
            }
            while !over.load(Ordering::SeqCst) {
                let held = session.claim("tx", 1).await;
                if !held.is_empty() {
                    settle(&mut session, &held).await;
                }
                // Submitters are faster, so that the gate closes often.
                rest().await;
            }
        }));
    }
    let mut submitters = Vec::new();
    for number in 0..campaign(16, 50) {
        let mut session = Session::open(&database).await;
        let openings = Arc::clone(&openings);
        submitters.push(tokio::spawn(async move {
            let (mut taken, mut round) = (0, 0);
            while round < campaign(12, 40) || openings.load(Ordering::SeqCst) < OPENINGS_MIN {
                round += 1;
                let call = match (number + round) % 10 {
                    0 => batch("direct", 7),
                    _ => "submit('direct', '{}')".to_owned(),
                };
                match session.attempt(&format!("select outcome from tidegate.{call}")).await {
                    Ok(said) => {
                        let accepted = said.iter().filter(|said| *said == "accepted").count();
                        taken += accepted;
                        // A refused caller comes back later, and leaves the processor to the workers.
                        if accepted == 0 {
                            tokio::time::sleep(Duration::from_millis(100)).await;
                        }
                    }
                    // On a slow machine some wait too long for their turn at the gate.
                    Err((code, _)) => assert_eq!(code, "55P03"),
                }
            }
            taken
        }));
    }
    let taken: usize = join_all(submitters).await.into_iter().map(Result::unwrap).sum();
    let queue_is_empty = || async { database.number(DEPTH).await == 0 };
    eventually("everything has been served", queue_is_empty).await;
    over.store(true, Ordering::SeqCst);
    for worker in workers {
        worker.await.unwrap();
    }
    let deepest = watched.await.unwrap();

    assert!(deepest <= 30, "{deepest} messages were in the queue");
    assert!(taken > campaign(30, 100), "only {taken} were let in");
    let mut session = Session::open(&database).await;
    session.execute("select tidegate.gates_evaluate()").await;
    let history = session.texts(HISTORY).await;
    assert!(history.len() >= 2, "{history:?}");
    let mut at_the_mark = 0;
    for (place, flip) in history.iter().enumerate() {
        if place % 2 == 0 {
            assert_eq!(flip, "TOO_MANY_REQUESTS 30", "{history:?}");
            continue;
        }
        // Settles see a closing when it commits, and may have removed messages by then (see
        // `a_closing_that_commits_late_opens_again_at_the_depth_of_then`).
        let depth: i32 = flip.strip_prefix("ACCEPTING_REQUESTS ").unwrap().parse().unwrap();
        assert!((0..=15).contains(&depth), "{history:?}");
        at_the_mark += i32::from(depth == 15);
    }
    assert!(at_the_mark * 4 > i32::try_from(history.len()).unwrap(), "{history:?}");
    assert_eq!(heard(&mut listener, &database).await, history);
    let problems = database.violations().await;
    assert_eq!(problems, NOTHING);
}
