//! Does a quota let a kind, or a submitter, have so many requests in queues and no more?

mod counts;
mod operators;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use futures_util::future::join_all;

use crate::support::{
    TestDatabase, campaign,
    race::{NOTHING, Session, leases, settle, sound},
    rest,
};

async fn stage(quotas: &[&str]) -> (TestDatabase, Session) {
    let database = TestDatabase::unlimited().await;
    let mut session = Session::open(&database).await;
    for quota in quotas {
        assert_eq!(session.text(&format!("select tidegate.quota_set({quota})")).await, "t");
    }
    (database, session)
}

const DIRECT: &str = "kind => 'direct', high_water => 6, low_water => 3";
const ANN: &str = "submitter => 'ann', high_water => 4, low_water => 2";

async fn outcomes(session: &mut Session, call: &str) -> Vec<String> {
    session.texts(&format!("select outcome from tidegate.{call}")).await
}

fn batch(kind: &str, count: usize) -> String {
    format!("submit_batch('{kind}', array_fill('{{}}'::jsonb, array[{count}]))")
}

fn promised(kind: &str, count: usize) -> String {
    format!("submit_batch('{kind}', array_fill('{{}}'::jsonb, array[{count}]), admission => 'accepted')")
}

/// State, depth at the last flip, epoch.
async fn state(session: &mut Session, gate: &str) -> String {
    session
        .text(&format!("select state || ' ' || depth || ' ' || epoch from tidegate.gate where name = '{gate}'"))
        .await
}

/// How many a quota counts.
async fn counted(session: &mut Session, gate: &str) -> String {
    session.text(&format!("select depth from tidegate.gate_overview('{gate}')")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_closes_and_opens_at_its_marks_and_stops_its_kind_only() {
    let (database, mut session) = stage(&[DIRECT]).await;
    for _ in 0..6 {
        assert_eq!(outcomes(&mut session, "submit('direct', '{}')").await, ["accepted"]);
    }
    assert_eq!(state(&mut session, "kind direct").await, "too_many_requests 6 1");
    let held = session.claim("tx", 6).await;
    for count in [0, 2] {
        session.texts(&settle("settle_receipt", &held[..count], "")).await;
        assert_eq!(outcomes(&mut session, "submit('direct', '{}')").await, ["refused"]);
        assert_eq!(outcomes(&mut session, "submit('input_proof', '{}')").await, ["accepted"]);
    }
    session.texts(&settle("settle_receipt", &held[2..3], "")).await;
    assert_eq!(state(&mut session, "kind direct").await, "accepting 3 2");
    assert_eq!(outcomes(&mut session, &batch("direct", 3)).await, ["accepted"; 3]);
    assert_eq!(state(&mut session, "kind direct").await, "too_many_requests 6 3");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tightest_of_several_gates_decides() {
    let (database, mut session) = stage(&[DIRECT, ANN]).await;
    session.execute("update tidegate.gate set high_water = 8, low_water = 7 where queue = 'tx'").await;
    let by_ann = "submit('direct', '{}', submitter => 'ann')";
    for _ in 0..4 {
        assert_eq!(outcomes(&mut session, by_ann).await, ["accepted"]);
    }
    assert_eq!(outcomes(&mut session, by_ann).await, ["refused"]);
    for _ in 0..2 {
        assert_eq!(outcomes(&mut session, "submit('direct', '{}')").await, ["accepted"]);
    }
    assert_eq!(outcomes(&mut session, "submit('direct', '{}')").await, ["refused"]);
    // Of a group, as many as all of them have room for.
    session
        .texts("select tidegate.cancel(id) from (select id from tidegate.request where submitter = 'ann' order by id limit 3) as a")
        .await;
    assert_eq!(state(&mut session, "kind direct").await, "accepting 3 2");
    assert_eq!(state(&mut session, "submitter ann").await, "accepting 2 2");
    assert_eq!(
        outcomes(
            &mut session,
            "submit_group('direct', array_fill('{}'::jsonb, array[6]), submitters => array_fill('ann'::text, array[6]))"
        )
        .await,
        ["accepted", "accepted", "accepted", "refused", "refused", "refused"]
    );
    assert_eq!(outcomes(&mut session, "submit('input_proof', '{}')").await, ["accepted"]);
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_goes_in_whole_or_not_at_all_and_replays_always() {
    let (database, mut session) = stage(&[DIRECT]).await;
    let (code, message) = session.attempt(&format!("select * from tidegate.{}", batch("direct", 7))).await.unwrap_err();
    assert_eq!(code, "TG011");
    assert!(message.contains("\"kind direct\""), "{message}");
    let keyed = "submit_batch('direct', '{1,2,3,4}', '{a,b,c,d}')";
    assert_eq!(outcomes(&mut session, keyed).await, ["accepted"; 4]);
    assert_eq!(outcomes(&mut session, &batch("direct", 3)).await, ["refused"; 3]);
    assert_eq!(state(&mut session, "kind direct").await, "accepting 0 0");
    assert_eq!(outcomes(&mut session, &batch("direct", 2)).await, ["accepted"; 2]);
    assert_eq!(outcomes(&mut session, keyed).await, ["replayed"; 4]);
    // What was promised goes in, and counts.
    assert_eq!(outcomes(&mut session, &promised("direct", 3)).await, ["accepted"; 3]);
    assert_eq!(counted(&mut session, "kind direct").await, "9");
    sound(&database).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_submitters_never_exceed_a_quota() {
    let (database, _) = stage(&[
        "kind => 'direct', high_water => 20, low_water => 10",
        "submitter => 'ann', high_water => 8, low_water => 4",
    ])
    .await;
    let done = Arc::new(AtomicBool::new(false));
    let submitters = (0..16).map(|number| {
        let done = Arc::clone(&done);
        let database = &database;
        async move {
            let mut session = Session::open(database).await;
            let submitter = if number % 2 == 0 { "'ann'" } else { "null" };
            let mut taken = 0;
            while !done.load(Ordering::Relaxed) {
                let call = if number % 4 < 3 {
                    format!("submit('direct', '{{}}', submitter => {submitter})")
                } else {
                    format!("submit_batch('direct', '{{1,2,3}}', submitter => {submitter})")
                };
                match session.attempt(&format!("select outcome from tidegate.{call}")).await {
                    Ok(said) => taken += said.iter().filter(|said| *said == "accepted").count(),
                    // On a slow machine some wait too long for their turn at the gate.
                    Err((code, _)) => assert_eq!(code, "55P03"),
                }
                rest().await;
            }
            taken
        }
    });
    let worker = async {
        let mut session = Session::open(&database).await;
        let mut served = 0;
        // However fast it is: after the first ones it serves only what is behind a closed quota, until quotas have closed
        // and opened several times.
        let flips = "select count(*) from tidegate.gate_event where gate in ('kind direct', 'submitter ann')";
        let closed = "select count(*) from tidegate.gate where queue is null and state = 'too_many_requests'";
        let unwatched = campaign(60, 200);
        while served < unwatched || session.text(flips).await.parse::<i32>().unwrap() < 5 {
            let may_serve = served < unwatched || session.text(closed).await != "0";
            for (limit, live) in [
                (20, "select count(*) from tidegate.request where req_status in ('processing', 'tx_in_flight')"),
                (
                    8,
                    "select count(*) from tidegate.request where req_status in ('processing', 'tx_in_flight') and submitter = 'ann'",
                ),
            ] {
                let depth: i32 = session.text(live).await.parse().unwrap();
                assert!(depth <= limit, "{depth} above {limit}");
            }
            if !may_serve {
                rest().await;
                continue;
            }
            let held = session.claim("tx", 2).await;
            served += held.len();
            session.texts(&format!("select id from tidegate_internal.settle_rejected({}, null)", leases(&held))).await;
        }
        done.store(true, Ordering::Relaxed);
        served
    };
    let (taken, served) = tokio::join!(join_all(submitters), worker);
    assert!(taken.iter().sum::<usize>() >= served);
    // Two are served at a time, and some perhaps before the submission that closes a gate has committed: then it opens
    // below its mark.
    assert_eq!(
        database
            .column(
                "select e.gate || ' ' || e.state || ' ' || e.depth
                 from tidegate.gate_event as e join tidegate.gate as g on g.name = e.gate
                 where case e.state when 'accepting' then e.depth > g.low_water else e.depth <> g.high_water end"
            )
            .await,
        NOTHING
    );
    sound(&database).await;
}
