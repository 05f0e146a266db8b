//! Does a rate limit hold across the fleet, and is it used to the full?

use std::time::Duration;

use futures_util::future::join_all;
use sqlx::{PgConnection, Row};

use crate::{
    support::{
        TestDatabase, campaign, eventually,
        race::{Session, settle, submit_many},
    },
    worker::lives::{Running, all_stages, options, until},
};

const SECOND_US: i64 = 1_000_000;

/// Bursts, and how many claim at once.
const CASES: [(i64, usize); 4] = [(1, 8), (5, 1), (1, 1), (5, 8)];

/// How far ahead a claim may reserve sends.
const RESERVED_US: i64 = 100_000;

/// Times are in whole microseconds, intervals between sends in whole nanoseconds.
const ROUNDING_US: i64 = 2;

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

/// What a claimer saw, by the database's clock, in microseconds.
struct Claim {
    /// A moment before the claim, and one after it.
    before: i64,
    after: i64,
    /// When the database answered it, and when its sends start; none when it handed out nothing.
    claimed_at: i64,
    sends: Vec<i64>,
}

/// Claims until the stopped clock is at `until`; each claim moves it by `pause_ms`.
async fn send_for(mut connection: PgConnection, until: String, pause_ms: i32) -> Vec<Claim> {
    let mut claims = Vec::new();
    let now = "update public.test_clock as c set at = c.at + $2 * interval '1 ms'
               returning (extract(epoch from c.at) * 1000000)::bigint, c.at >= $1::timestamptz";
    let (mut before, mut over) = (0, false);
    while !over {
        let rows = sqlx::query(
            "select (extract(epoch from send_at) * 1000000)::bigint as send_at,
               (extract(epoch from claimed_at) * 1000000)::bigint as claimed_at
             from tidegate.claim_tx('tx', 'w', 1000, '30 seconds')",
        )
        .fetch_all(&mut connection)
        .await
        .unwrap();
        let (mut sends, mut claimed_at) = (Vec::new(), 0);
        for row in rows {
            let send_at: i64 = row.get("send_at");
            claimed_at = row.get("claimed_at");
            assert!(send_at >= claimed_at && send_at <= claimed_at + RESERVED_US, "{send_at} {claimed_at}");
            sends.push(send_at);
        }
        let after;
        (after, over) = sqlx::query_as(now).bind(&until).bind(pause_ms).fetch_one(&mut connection).await.unwrap();
        claims.push(Claim { before, after, claimed_at, sends });
        before = after;
    }
    claims
}

/// The time in which a send could have started and no claim asked for it. Panics when a claim got less than the rate
/// allowed, unless the queue was `emptied` by the last claim that got anything.
fn unasked(claims: &[Claim], interval: i64, emptied: bool, case: &str) -> i64 {
    let mut given: Vec<_> = claims.iter().filter(|c| !c.sends.is_empty()).collect();
    given.sort_by_key(|claim| claim.claimed_at);
    let mut unasked = 0;
    for pair in given.windows(2) {
        let next = pair[0].sends.last().unwrap() + interval;
        let asked = pair[1].claimed_at;
        assert!(
            pair[1].sends[0] <= next.max(asked) + ROUNDING_US,
            "{case}: a send after {next} was asked for at {asked} and starts at {}",
            pair[1].sends[0]
        );
        unasked += (asked - next).max(0);
    }
    for empty in claims.iter().filter(|claim| claim.sends.is_empty()) {
        let before = given.partition_point(|claim| claim.claimed_at <= empty.after);
        if let Some(last) = before.checked_sub(1)
            && (before < given.len() || !emptied)
        {
            let next = given[last].sends.last().unwrap() + interval;
            assert!(
                next + ROUNDING_US >= empty.before + RESERVED_US,
                "{case}: a claim after {} got nothing, though {next} was free",
                empty.before
            );
        }
    }
    unasked
}

async fn paced(per_seconds: i64, burst: i64, claimers: usize, millis: i64) {
    let database = TestDatabase::unlimited().await;
    database.stop_clock().await;
    database
        .execute(&format!("update tidegate.queue set per_seconds = {per_seconds}, burst = {burst} where name = 'tx'"))
        .await;
    let half = i32::try_from(per_seconds * (millis + 200) / 1000).unwrap() / 2 + 100;
    let mut submitted = 0;
    for _ in 0..2 {
        submitted += submit_many(&database, "direct", half).await.len();
    }
    let mut connections = Vec::new();
    for _ in 0..claimers {
        connections.push(database.session().await);
    }
    let until = database.text(&format!("select tidegate.clock() + interval '{millis} milliseconds'")).await.unwrap();
    // Less than the time for which a claim reserves.
    let pause_ms = if per_seconds > 100 { 5 } else { 25 };
    let tasks: Vec<_> =
        connections.into_iter().map(|connection| tokio::spawn(send_for(connection, until.clone(), pause_ms))).collect();
    let mut claims = Vec::new();
    for task in tasks {
        claims.extend(task.await.unwrap());
    }
    let mut sends: Vec<_> = claims.iter().flat_map(|claim| &claim.sends).copied().collect();
    sends.sort_unstable();

    let case = format!("D = {per_seconds}, burst {burst}, {claimers} claimers");
    let most = busiest_second(&sends);
    assert!(most <= usize::try_from(per_seconds + burst).unwrap(), "{case}: {most} in a second");
    // A busy machine may let all claimers stall for longer than a claim reserves ahead.
    let emptied = sends.len() >= submitted;
    let unasked = unasked(&claims, SECOND_US / per_seconds, emptied, &case);
    let span = sends.last().unwrap() - sends[0] - unasked;
    let possible = span * per_seconds / SECOND_US;
    let used = i64::try_from(sends.len()).unwrap();
    assert!(used * 100 >= possible * 97, "{case}: {used} of {possible}, {unasked} µs unasked for");
}

#[tokio::test(flavor = "multi_thread")]
async fn low_rates_are_kept_and_used_by_any_number_of_claimers() {
    let runs = async |per_seconds, millis| {
        let cases = CASES[..campaign(2, 4)].iter();
        join_all(cases.map(|&(burst, claimers)| paced(per_seconds, burst, claimers, millis))).await;
    };
    tokio::join!(runs(1, 4200), runs(3, 3500), runs(10, 2500));
}

#[tokio::test(flavor = "multi_thread")]
async fn high_rates_are_kept_and_used_by_any_number_of_claimers() {
    for (per_seconds, millis) in [(333, campaign(1200, 1800)), (5000, campaign(1400, 2200))] {
        for &(burst, claimers) in &CASES[..campaign(2, 4)] {
            paced(per_seconds, burst, claimers, millis).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_of_one_send_an_hour_is_twenty_four_sends() {
    let database = TestDatabase::unlimited().await;
    database.stop_clock().await;
    database
        .execute(
            "update tidegate.queue set per_seconds = 1 / 3600.0 where name = 'tx';
             update tidegate.kind set deadline = '2 days'",
        )
        .await;
    submit_many(&database, "direct", 30).await;
    let mut session = Session::open(&database).await;
    let mut sent = 0;
    for _ in 0..24 * 4 {
        let held = session.claim("tx", 10).await;
        sent += held.len();
        if !held.is_empty() {
            let answered = settle("settle_rejected", &held, "null");
            session.execute(&answered).await;
        }
        database.execute("update public.test_clock set at = at + interval '15 minutes'").await;
    }
    assert_eq!(sent, 24);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_rate_holds_from_the_next_claim_on() {
    let database = TestDatabase::unlimited().await;
    submit_many(&database, "direct", 2000).await;
    let mut session = Session::open(&database).await;
    let mut claim_at = async |rate: &str| {
        session.execute(&format!("update tidegate.queue set per_seconds = {rate} where name = 'tx'")).await;
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
    tokio::time::timeout(Duration::from_secs(2), claimed).await.expect("the limiter has stopped");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_past_does_not_hold_back_a_faster_present() {
    let database = TestDatabase::unlimited().await;
    submit_many(&database, "direct", 10).await;
    let mut session = Session::open(&database).await;
    database.execute("update tidegate.queue set per_seconds = 0.001 where name = 'tx'").await;
    assert_eq!(session.claim("tx", 5).await.len(), 1);
    assert!(session.claim("tx", 5).await.is_empty(), "the next one in a quarter of an hour");
    database.execute("update tidegate.queue set per_seconds = 20 where name = 'tx'").await;
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
    let reserved =
        async { while session.text("select send_in is null from tidegate.reserve_send('tx')").await == "t" {} };
    tokio::time::timeout(Duration::from_secs(2), reserved).await.expect("the limiter has stopped");
}

#[tokio::test(flavor = "multi_thread")]
async fn reserved_sends_and_claims_share_one_rate() {
    let database = TestDatabase::unlimited().await;
    database.execute("update tidegate.queue set per_seconds = 1, burst = 3 where name = 'tx'").await;
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
    database.execute("update tidegate.queue set per_seconds = 1 where name = 'tx'").await;
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
    gives_its_slot_up(true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn so_does_the_first_send_of_a_worker() {
    gives_its_slot_up(false).await;
}

async fn gives_its_slot_up(after_a_prompt_one: bool) {
    let database = TestDatabase::unlimited().await;
    database
        .execute(
            "update tidegate.queue set per_seconds = 100 where name = 'tx';
             create function public.hold_up() returns trigger language plpgsql as
               'begin perform pg_advisory_xact_lock(4711); return null; end';
             create trigger hold_up after update on tidegate.request
               for each row when (new.cause = 'claimed') execute function public.hold_up()",
        )
        .await;
    let worker = Running::start(&database.store, all_stages(), options());
    if after_a_prompt_one {
        let prompt = database.submit("direct").await;
        until(&database, prompt, "completed").await;
    }

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
    // On a busy machine the next slot may be missed, too.
    let causes = database.causes(held_up).await;
    let (given_up, sent) = causes[1..].split_at(causes.len() - 3);
    assert!(!given_up.is_empty() && given_up.chunks(2).all(|pair| pair == ["claimed", "released"]), "{causes:?}");
    assert_eq!(sent, ["claimed", "receipt"]);
    worker.stop().await;
}
