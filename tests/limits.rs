//! Do rate and concurrency limits hold across the fleet, and are they used to the full?

use std::time::Duration;

use sqlx::{PgConnection, Row};

use crate::support::{
    TestDatabase, eventually,
    invariants::violations,
    race::{Session, leases, settle, submit_many},
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
    let last = asked.last().unwrap() - sends.last().unwrap();
    assert!(
        last <= SECOND_US / per_seconds,
        "{case}: it stopped {last} µs before the end"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn low_rates_are_kept_and_used_by_any_number_of_claimers() {
    let runs = async |per_seconds, millis| {
        tokio::join!(
            paced(per_seconds, 1, 1, millis),
            paced(per_seconds, 1, 4, millis),
            paced(per_seconds, 5, 1, millis),
            paced(per_seconds, 5, 4, millis),
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
async fn no_limit_takes_no_lock_and_a_limit_takes_one() {
    for (queue, kind, limit) in [
        ("tx", "direct", "per_seconds"),
        ("readiness", "public_decrypt", "max_concurrency"),
    ] {
        for (value, locks) in [("null", "0"), ("1000", "1")] {
            let database = TestDatabase::unlimited().await;
            database
                .execute(&format!(
                    "update tidegate.queue set {limit} = {value} where name = '{queue}'"
                ))
                .await;
            submit_many(&database, kind, 5).await;
            let mut session = Session::begin(&database).await;
            assert_eq!(session.claim(queue, 5).await.len(), 5);

            let held = "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()
                        and ((classid::bigint << 32) | objid::bigint) <> hashtextextended('tidegate.mark.' || '$q', 0)";
            assert_eq!(
                session.text(&held.replace("$q", queue)).await,
                locks,
                "{queue} {value}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn never_more_checks_are_held_than_the_limit_allows() {
    for limit in [1_usize, 3, 50] {
        let database = TestDatabase::unlimited().await;
        database
            .execute(&format!(
                "update tidegate.queue set max_concurrency = {limit} where name = 'readiness'"
            ))
            .await;
        let total = 400;
        submit_many(&database, "public_decrypt", total).await;
        let mut workers = Vec::new();
        for worker in 0..8 {
            let mut session = Session::open(&database).await;
            workers.push(tokio::spawn(async move {
                let (mut done, mut most) = (0, 0);
                for round in 0..600 / limit.min(6) {
                    let held = session.claim("readiness", 20).await;
                    most = most.max(held.len());
                    if round % 3 == 0 && !held.is_empty() {
                        session.texts(&settle("release", &held, "")).await;
                    } else if round % 5 == 0 && !held.is_empty() {
                        session
                            .texts(&format!(
                                "select tidegate.extend({}, '30 s')",
                                leases(&held)
                            ))
                            .await;
                        done += session
                            .texts(&settle("settle_passed", &held, ""))
                            .await
                            .len();
                    } else if !held.is_empty() {
                        done += session
                            .texts(&settle("settle_passed", &held, ""))
                            .await
                            .len();
                    }
                }
                (worker, done, most)
            }));
        }
        let mut observer = Session::open(&database).await;
        let mut seen = 0;
        while workers.iter().any(|worker| !worker.is_finished()) {
            let held = observer
                .text("select count(*) from pgmq.q_readiness where headers is not null and vt > clock_timestamp()")
                .await;
            seen = seen.max(held.parse::<usize>().unwrap());
        }
        let mut done = 0;
        for worker in workers {
            let (_, settled, most) = worker.await.unwrap();
            assert!(most <= limit, "one claim took {most} of {limit}");
            done += settled;
        }
        assert!(seen <= limit, "{seen} were held, {limit} are allowed");
        assert!(seen > 0 && done > 0);
        assert_eq!(violations(&database.pool).await, Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slot_comes_back_with_its_settle_and_with_its_lease() {
    let database = TestDatabase::unlimited().await;
    database
        .execute("update tidegate.queue set max_concurrency = 2 where name = 'readiness'")
        .await;
    submit_many(&database, "public_decrypt", 12).await;
    let mut session = Session::open(&database).await;
    for (outcome, more) in [
        ("settle_passed", ""),
        ("settle_failed", "null"),
        // Backing off takes no slot.
        ("settle_not_yet", "array[interval '1 hour', '1 hour']"),
        ("release", ""),
    ] {
        let held = session.claim("readiness", 5).await;
        assert_eq!(held.len(), 2, "before {outcome}");
        assert!(session.claim("readiness", 5).await.is_empty());
        assert_eq!(session.texts(&settle(outcome, &held, more)).await.len(), 2);
    }

    // Two dead workers: their leases run out by themselves.
    let dead = session.claim_for("readiness", 5, "100 milliseconds").await;
    assert_eq!(dead.len(), 2);
    let again = async {
        loop {
            let held = session.claim("readiness", 5).await;
            if !held.is_empty() {
                return held;
            }
        }
    };
    let again = tokio::time::timeout(Duration::from_secs(20), again)
        .await
        .unwrap();
    // The two leases began together, and so they ended.
    assert_eq!(
        again.iter().map(|held| held.id).collect::<Vec<_>>(),
        dead.iter().map(|held| held.id).collect::<Vec<_>>()
    );
    assert!(session.claim("readiness", 5).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_of_none_stops_checks_and_no_limit_does_not() {
    let database = TestDatabase::unlimited().await;
    submit_many(&database, "public_decrypt", 300).await;
    let mut session = Session::open(&database).await;
    database
        .execute("update tidegate.queue set max_concurrency = 0 where name = 'readiness'")
        .await;
    assert!(session.claim("readiness", 5).await.is_empty());
    database
        .execute("update tidegate.queue set max_concurrency = 2 where name = 'readiness'")
        .await;
    assert_eq!(session.claim("readiness", 5).await.len(), 2);
    database
        .execute("update tidegate.queue set max_concurrency = 1 where name = 'readiness'")
        .await;
    assert!(session.claim("readiness", 5).await.is_empty());
    database
        .execute("update tidegate.queue set max_concurrency = null where name = 'readiness'")
        .await;
    assert_eq!(session.claim("readiness", 500).await.len(), 298);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_prolonged_at_its_very_end_does_not_let_one_more_in() {
    let database = TestDatabase::unlimited().await;
    database
        .execute("update tidegate.queue set max_concurrency = 1 where name = 'readiness'")
        .await;
    submit_many(&database, "public_decrypt", 2).await;
    let mut holder = Session::open(&database).await;
    let held = holder.claim_for("readiness", 1, "1 second").await;
    holder.execute("begin").await;
    let extended = holder
        .texts(&format!(
            "select e from tidegate.extend({}, '30 s') as e",
            leases(&held)
        ))
        .await;
    assert_eq!(extended.len(), 1);
    // What the others see runs out before this commits.
    eventually("the old lease runs out", || async {
        database.number("select count(*) from pgmq.q_readiness where headers is not null and vt <= clock_timestamp()").await == 1
    })
    .await;
    let claim = Session::open(&database)
        .await
        .start("select id from tidegate.claim_readiness('readiness', 'w', 1, '30 s')");
    claim.until_blocked_or_done(&database, &holder).await;
    holder.commit().await;

    assert_eq!(claim.finish().await.1, Vec::<String>::new());
    assert_eq!(
        database.number("select count(*) from pgmq.q_readiness where headers is not null and vt > clock_timestamp()").await,
        1
    );
}
