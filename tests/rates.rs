//! Does a rate limit hold across the fleet, and is it used to the full?

use std::time::Duration;

use sqlx::{PgConnection, Row};
use tidegate::worker::WorkerOptions;

use crate::{
    support::{
        TestDatabase, eventually,
        race::{Session, submit_many},
    },
    worker::{Running, all_stages, options, until},
};

const SECOND_US: i64 = 1_000_000;

/// The most sends that start within any second, both ends counted only once, by all pairs in effect.
fn busiest_second(sends: &[i64]) -> usize {
    let mut most = 0;
    let mut first = 0;
    for (last, at) in sends.iter().enumerate() {
        while at - sends[first] >= SECOND_US {
            first += 1;
        }
        most = most.max(last - first + 1);
    }
    most
}

/// Asks every few milliseconds until the database's clock says `until`: when sends start, and when it asked.
async fn send_for(mut connection: PgConnection, until: String) -> (Vec<i64>, Vec<i64>) {
    let (mut sends, mut asked) = (Vec::new(), Vec::new());
    loop {
        let rows = sqlx::query(
            "select (extract(epoch from send_at) * 1000000)::bigint as send_at,
               (extract(epoch from claimed_at) * 1000000)::bigint as claimed_at
             from tidegate.claim_tx('tx', 'w', 1000, '30 seconds')",
        )
        .fetch_all(&mut connection)
        .await
        .unwrap();
        for row in rows {
            let (send_at, claimed_at): (i64, i64) = (row.get("send_at"), row.get("claimed_at"));
            assert!(
                send_at >= claimed_at && send_at <= claimed_at + 100_000,
                "{send_at} {claimed_at}"
            );
            sends.push(send_at);
        }
        let (now, over): (i64, bool) = sqlx::query_as(
            "select (extract(epoch from c.now) * 1000000)::bigint, c.now >= $1::timestamptz from (select clock_timestamp() as now) as c",
        )
        .bind(&until)
        .fetch_one(&mut connection)
        .await
        .unwrap();
        asked.push(now);
        if over {
            return (sends, asked);
        }
        // As a worker does; two cores are shared with the database.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn paced(per_seconds: i64, burst: i64, claimers: usize, millis: i64) {
    let database = TestDatabase::unlimited().await;
    database
        .execute(&format!("update tidegate.queue set per_seconds = {per_seconds}, burst = {burst} where name = 'tx'"))
        .await;
    let mut enough = i32::try_from(per_seconds * millis / 1000 + 200).unwrap();
    while enough > 0 {
        submit_many(&database, "direct", enough.min(5000)).await;
        enough -= 5000;
    }
    let mut connections = Vec::new();
    for _ in 0..claimers {
        connections.push(database.session().await);
    }
    let until = database
        .text(&format!(
            "select clock_timestamp() + interval '{millis} milliseconds'"
        ))
        .await
        .unwrap();
    let tasks: Vec<_> = connections
        .into_iter()
        .map(|connection| tokio::spawn(send_for(connection, until.clone())))
        .collect();
    let (mut sends, mut asked) = (Vec::new(), Vec::new());
    for task in tasks {
        let (its_sends, its_asked) = task.await.unwrap();
        sends.extend(its_sends);
        asked.extend(its_asked);
    }
    sends.sort_unstable();

    let case = format!("D = {per_seconds}, burst {burst}, {claimers} claimers");
    let most = busiest_second(&sends);
    assert!(
        most <= usize::try_from(per_seconds + burst).unwrap(),
        "{case}: {most} in a second"
    );
    // A busy machine may let all claimers stall for longer than a claim reserves ahead: nobody asked for those sends.
    asked.sort_unstable();
    let stalled: i64 = asked
        .windows(2)
        .map(|pair| (pair[1] - pair[0] - 80_000).max(0))
        .sum();
    let span = sends.last().unwrap() - sends[0] - stalled;
    let possible = span * per_seconds / SECOND_US;
    let used = i64::try_from(sends.len()).unwrap();
    assert!(
        used * 100 >= possible * 97,
        "{case}: {used} of {possible}, stalled for {stalled} µs"
    );
    let silent = asked.last().unwrap() - sends.last().unwrap();
    assert!(
        silent <= SECOND_US / per_seconds + 300_000,
        "{case}: it stopped {silent} µs before the end"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn low_rates_are_kept_and_used_by_any_number_of_claimers() {
    let runs = async |per_seconds, millis| {
        tokio::join!(
            paced(per_seconds, 1, 1, millis),
            paced(per_seconds, 1, 8, millis),
            paced(per_seconds, 5, 1, millis),
            paced(per_seconds, 5, 8, millis),
        )
    };
    tokio::join!(runs(1, 4200), runs(3, 3500), runs(10, 2500));
}

#[tokio::test(flavor = "multi_thread")]
async fn high_rates_are_kept_and_used_by_any_number_of_claimers() {
    for (per_seconds, millis) in [(333, 1800), (5000, 2200)] {
        for (burst, claimers) in [(1, 1), (1, 8), (5, 1), (5, 8)] {
            paced(per_seconds, burst, claimers, millis).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_rate_holds_from_the_next_claim_on() {
    let database = TestDatabase::unlimited().await;
    submit_many(&database, "direct", 2000).await;
    let mut session = Session::open(&database).await;
    let mut claim_at = async |rate: &str| {
        session
            .execute(&format!(
                "update tidegate.queue set per_seconds = {rate} where name = 'tx'"
            ))
            .await;
        session.claim("tx", 500).await.len()
    };

    // A reservation of 100 ms, and the send of now.
    assert_eq!(claim_at("100").await, 11);
    assert_eq!(claim_at("0").await, 0);
    assert_eq!(claim_at("null").await, 500);
    assert_eq!(claim_at("0").await, 0);
}

/// Claims until there is something, for a second or two at most.
async fn claims_soon(session: &mut Session) {
    let claimed = async { while session.claim("tx", 1).await.is_empty() {} };
    tokio::time::timeout(Duration::from_secs(2), claimed)
        .await
        .expect("the limiter has stopped");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_past_does_not_hold_back_a_faster_present() {
    let database = TestDatabase::unlimited().await;
    submit_many(&database, "direct", 10).await;
    let mut session = Session::open(&database).await;
    database
        .execute("update tidegate.queue set per_seconds = 0.001 where name = 'tx'")
        .await;
    assert_eq!(session.claim("tx", 5).await.len(), 1);
    assert!(
        session.claim("tx", 5).await.is_empty(),
        "the next one in a quarter of an hour"
    );
    database
        .execute("update tidegate.queue set per_seconds = 20 where name = 'tx'")
        .await;
    claims_soon(&mut session).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_stepped_back_an_hour_does_not_stop_the_limiter() {
    let database = TestDatabase::unlimited().await;
    submit_many(&database, "direct", 10).await;
    database
        .execute(
            "update tidegate.queue set per_seconds = 10 where name = 'tx';
             select setval('tidegate.pacing_tx', (extract(epoch from clock_timestamp() + interval '1 hour') * 1000000000)::bigint)",
        )
        .await;
    let mut session = Session::open(&database).await;
    for _ in 0..3 {
        claims_soon(&mut session).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_stepped_back_does_not_stop_those_who_reserve_single_sends() {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "update tidegate.queue set per_seconds = 10 where name = 'tx';
             select setval('tidegate.pacing_tx', (extract(epoch from clock_timestamp() + interval '1 hour') * 1000000000)::bigint)",
        )
        .await;
    let mut session = Session::open(&database).await;
    let reserved = async {
        while session
            .text("select send_in is null from tidegate.reserve_send('tx')")
            .await
            == "t"
        {}
    };
    tokio::time::timeout(Duration::from_secs(2), reserved)
        .await
        .expect("the limiter has stopped");
}

#[tokio::test(flavor = "multi_thread")]
async fn reserved_sends_and_claims_share_one_rate() {
    let database = TestDatabase::unlimited().await;
    database
        .execute("update tidegate.queue set per_seconds = 1, burst = 3 where name = 'tx'")
        .await;
    submit_many(&database, "direct", 5).await;
    let mut session = Session::open(&database).await;
    let reserve = "select send_in, wait_ms > 0 from tidegate.reserve_send('tx')";
    assert_eq!(session.text(reserve).await, "00:00:00 f");
    assert_eq!(session.claim("tx", 1).await.len(), 1);
    assert_eq!(session.text(reserve).await, "00:00:00 f");
    assert!(session.claim("tx", 5).await.is_empty());
    assert_eq!(session.text(reserve).await, " t");
}

#[tokio::test(flavor = "multi_thread")]
async fn empty_claims_burn_no_permits() {
    let database = TestDatabase::unlimited().await;
    database
        .execute("update tidegate.queue set per_seconds = 1 where name = 'tx'")
        .await;
    let mut session = Session::open(&database).await;
    for _ in 0..20 {
        assert!(session.claim("tx", 10).await.is_empty());
    }
    submit_many(&database, "direct", 10).await;
    assert_eq!(session.claim("tx", 10).await.len(), 1);
    assert!(session.claim("tx", 10).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_send_whose_claim_was_answered_after_its_slot_gives_the_slot_up() {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "update tidegate.queue set per_seconds = 100 where name = 'tx';
             create function hold_up() returns trigger language plpgsql as
               'begin perform pg_advisory_xact_lock(4711); return null; end';
             create trigger hold_up after update on tidegate.request
               for each row when (new.cause = 'claimed') execute function hold_up()",
        )
        .await;
    let options = WorkerOptions {
        lease: Duration::from_secs(30),
        ..options()
    };
    let worker = Running::start(&database.store, all_stages(), options);
    // What is answered at once shows the worker how the clocks differ.
    let prompt = database.submit("direct").await;
    until(&database, prompt, "completed").await;

    let mut holder = Session::open(&database).await;
    holder.execute("select pg_advisory_lock(4711)").await;
    let held_up = database.submit("direct").await;
    eventually("a claim is held up for longer than a slot", || async {
        database
            .number(
                "select count(*) from pg_stat_activity
                 where datname = current_database() and wait_event_type = 'Lock'
                   and clock_timestamp() - query_start > interval '300 ms'",
            )
            .await
            > 0
    })
    .await;
    holder.execute("select pg_advisory_unlock(4711)").await;

    until(&database, held_up, "completed").await;
    assert_eq!(
        database.causes(held_up).await,
        ["submitted", "claimed", "released", "claimed", "receipt"]
    );
    worker.stop().await;
}
