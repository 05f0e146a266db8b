//! Do observed ETAs say what the last minutes showed, and nothing that they did not?

use std::ops::RangeInclusive;

use proptest::prelude::*;

use crate::support::{
    TestDatabase,
    property::{Asked, for_all},
};

/// `direct` with observed ETAs, D = 10, and no jitter; time stands still.
async fn observed() -> TestDatabase {
    let database = TestDatabase::new().await;
    database.stop_clock().await;
    database
        .execute(
            "update tidegate.kind set eta = 'observed';
             update tidegate.setting set jitter = 0",
        )
        .await;
    database
}

/// Twenty-one answers of `direct` that took 3.0, 3.1 … 5.0 s, seen at this moment.
async fn answered_in_three_to_five_seconds(database: &TestDatabase) {
    database
        .execute(
            "insert into tidegate.finish_sample (
               kind, requests, answer_ms, predicted, error_ms, error_abs_ms, error_bins, p90_stated, p90_held
             )
             select 'direct', 1, array[3000 + 100 * i], 0, 0, 0, array_fill(0, array[8]), 0, 0
             from generate_series(0, 20) as i;
             select tidegate.take_samples()",
        )
        .await;
}

async fn assert_told(database: &TestDatabase, what: &str, expected: RangeInclusive<i64>) {
    let told = told(database, what).await;
    assert!(expected.contains(&told), "{what}: {told}");
}

/// What a poll of the latest request that has not ended tells.
async fn told(database: &TestDatabase, what: &str) -> i64 {
    database
        .number(&format!(
            "select o.{what}
             from (
               select id from tidegate.request where finished_at is null order by msg_id desc limit 1
             ) as latest, tidegate.request_outlook(latest.id) as o"
        ))
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn with_few_samples_a_short_wait_is_told_the_nominal_eta_and_a_long_one_no_margin_on_the_wait() {
    let database = observed().await;

    for (ahead, nominal, observed) in [(0, 3, 3), (1, 3, 3), (10, 4, 4), (100, 15, 13), (1000, 123, 103)] {
        database
            .execute(&format!(
                "delete from pgmq.q_tx;
                 select tidegate.submit_batch('direct', array_fill('{{}}'::jsonb, array[{ahead} + 1]))"
            ))
            .await;
        assert_eq!(told(&database, "retry_after_seconds").await, observed, "{ahead}");
        assert_eq!(
            database
                .text("select o.eta_p90_ms from tidegate.request as r, tidegate.request_outlook(r.id) as o limit 1")
                .await,
            None
        );
        database.execute("update tidegate.kind set eta = 'nominal'").await;
        assert_eq!(told(&database, "retry_after_seconds").await, nominal, "{ahead}");
        database.execute("update tidegate.kind set eta = 'observed'").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_seen_lately_say_how_long_the_next_takes() {
    let database = observed().await;
    answered_in_three_to_five_seconds(&database).await;
    // A poll and the submission agree, and both say p50 and p90.
    database.submit("direct").await;
    assert_told(&database, "eta_p50_ms", 3990..=4010).await;
    assert_told(&database, "eta_p90_ms", 4780..=4860).await;
    assert_eq!(told(&database, "retry_after_seconds").await, 5);
    assert_eq!(told(&database, "predicted_seconds").await, 5);

    database.execute("select tidegate.cancel(id) from tidegate.request").await;

    // In flight for 4.5 s: another of those that took longer than that.
    database.request_in("direct", "receipt_received").await;
    database
        .execute(
            "update tidegate.request set tx_in_flight_at = tidegate.clock() - interval '4.5 s'
             where req_status = 'receipt_received'",
        )
        .await;
    assert_told(&database, "eta_p50_ms", 250..=300).await;
    assert_eq!(told(&database, "retry_after_seconds").await, 1);

    // Longer than any before it: later and later.
    let mut last = 0;
    for taken in [10, 60, 600] {
        database
            .execute(&format!(
                "update tidegate.request set tx_in_flight_at = tidegate.clock() - interval '{taken} s'
                 where req_status = 'receipt_received'"
            ))
            .await;
        let seconds = told(&database, "retry_after_seconds").await;
        assert!(seconds > last && seconds <= taken / 2, "{taken}: {seconds}");
        last = seconds;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_observed_too_long_ago_counts_no_more() {
    let database = observed().await;
    answered_in_three_to_five_seconds(&database).await;
    database.submit("direct").await;
    assert_eq!(told(&database, "retry_after_seconds").await, 5);

    database.execute("update tidegate.kind_pace set observed_at = observed_at - interval '11 s'").await;

    assert_eq!(told(&database, "retry_after_seconds").await, 3);
}

/// Lets the first waiting message of `tx` move on by this many a second, for so many seconds, beginning at this second.
async fn moves(database: &TestDatabase, begins: i32, seconds: i32, per_second: i32) {
    for second in begins..begins + seconds {
        database
            .execute(&format!(
                "delete from pgmq.q_tx
                 where msg_id in (select msg_id from pgmq.q_tx order by msg_id limit {per_second});
                 select tidegate_internal.sample_queue(q, timestamptz '2026-01-01' + interval '{second} s')
                 from tidegate.queue as q where q.name = 'tx'"
            ))
            .await;
    }
}

/// A column of what was observed of `tx`, as text.
async fn pace(database: &TestDatabase, what: &str) -> Option<String> {
    database.text(&format!("select {what} from tidegate.queue_pace where queue = 'tx'")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_as_fast_as_its_backlog_was_seen_to_move_and_idle_time_tells_nothing() {
    let database = observed().await;
    moves(&database, 0, 20, 0).await;
    assert_eq!(pace(&database, "per_second").await, None);
    database.execute("select tidegate.submit_batch('direct', array_fill('{}'::jsonb, array[500]))").await;

    moves(&database, 20, 4, 4).await;
    assert_eq!(pace(&database, "per_second").await, None, "seen for too short");
    moves(&database, 24, 8, 4).await;
    assert_eq!(pace(&database, "round(per_second, 3)").await.as_deref(), Some("4.000"));

    // Slower than configured: four a second is what the 452 that are left are told.
    answered_in_three_to_five_seconds(&database).await;
    database
        .execute(
            "update tidegate.queue_pace set observed_at = tidegate.clock(), per_second = 4, still_since = null
             where queue = 'tx'",
        )
        .await;
    assert_told(&database, "eta_p50_ms", 116_000..=117_500).await;
    // Faster than configured is not believed.
    database.execute("update tidegate.queue_pace set per_second = 40 where queue = 'tx'").await;
    assert_told(&database, "eta_p50_ms", 49_000..=49_600).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standstill_is_noticed_makes_later_and_does_not_slow_the_pace_afterwards() {
    let database = observed().await;
    database.execute("select tidegate.submit_batch('direct', array_fill('{}'::jsonb, array[900]))").await;
    moves(&database, 0, 12, 10).await;
    assert_eq!(pace(&database, "still_since").await, None);

    moves(&database, 12, 30, 0).await;
    assert_eq!(pace(&database, "extract(epoch from observed_at - still_since)::int").await.as_deref(), Some("30"));
    moves(&database, 42, 8, 10).await;

    assert_eq!(pace(&database, "still_since").await, None);
    let after: f64 = pace(&database, "per_second").await.unwrap().parse().unwrap();
    assert!((9.9..=10.1).contains(&after), "{after}");
}

#[tokio::test(flavor = "multi_thread")]
async fn while_nothing_moves_callers_are_told_ever_later() {
    let database = observed().await;
    answered_in_three_to_five_seconds(&database).await;
    database.submit("direct").await;
    let mut last = told(&database, "retry_after_seconds").await;

    for still in [10, 30, 90, 3000] {
        database
            .execute(&format!(
                "update tidegate.queue_pace
                 set observed_at = tidegate.clock(), still_since = tidegate.clock() - interval '{still} s'
                 where queue = 'tx'"
            ))
            .await;
        let seconds = told(&database, "retry_after_seconds").await;
        assert!(seconds > last && seconds <= 300, "{still}: {seconds}");
        // Nine standstills in ten that lasted so long end within less than four times as long again.
        let p90 = told(&database, "eta_p90_ms").await;
        assert!(p90 > 3500 * still && 10 * p90 < 37_000 * still + 40_000, "{still}: {p90}");
        last = seconds;
    }

    database.execute("select tidegate.pause('tx')").await;
    assert_eq!(told(&database, "retry_after_seconds").await, 300);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_send_that_outlives_its_nominal_time_is_asked_for_ever_later() {
    // Polls that come when they were told to, of a downstream that takes 30 s instead of 2 s.
    for (eta, polls) in [("nominal", vec![3, 6, 12, 24, 48]), ("observed", vec![3, 6, 12, 24, 48])] {
        let database = observed().await;
        database
            .execute(&format!(
                "update tidegate.kind set eta = '{eta}';
                 select from tidegate.submit('direct', '1');
                 select from tidegate.claim_tx('tx', 'w', 1, '10 minutes')"
            ))
            .await;
        let (mut now, mut told_at) = (0, Vec::new());
        while now < 30 {
            let seconds = told(&database, "retry_after_seconds").await;
            now += seconds;
            told_at.push(now);
            let moved = format!("update public.test_clock set at = at + interval '{seconds} s'");
            database.execute(&moved).await;
        }
        assert_eq!(told_at, polls, "{eta}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_samples_a_send_is_told_the_rest_of_its_nominal_time() {
    let database = observed().await;
    database
        .execute(
            "update tidegate.kind set processing_ms = 30000;
             update tidegate.setting set safety_margin = 0;
             select from tidegate.submit('direct', '1');
             select from tidegate.claim_tx('tx', 'w', 1, '10 minutes')",
        )
        .await;
    for (at, expected) in [(0, 30), (10, 20), (29, 1), (30, 30), (40, 40)] {
        let moved = format!(
            "update public.test_clock set at = (select tx_in_flight_at from tidegate.request) + interval '{at} s'"
        );
        database.execute(&moved).await;
        assert_eq!(told(&database, "retry_after_seconds").await, expected, "{at}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_submitted_at_once_are_told_in_order_what_each_alone_would_be() {
    let database = observed().await;
    answered_in_three_to_five_seconds(&database).await;

    database.execute("select tidegate.submit_batch('direct', array_fill('{}'::jsonb, array[777]))").await;

    assert_eq!(
        database
            .number(
                "select count(*) from tidegate.request as r, tidegate.request_outlook(r.id) as o
                 where abs(r.eta_seconds - o.retry_after_seconds) > 1 or abs(r.eta_p90_ms - o.eta_p90_ms) > 200"
            )
            .await,
        0
    );
    assert_eq!(
        database
            .number(
                "select count(*) from (
                   select eta_p90_ms < lag(eta_p90_ms) over (order by msg_id) as earlier from tidegate.request
                 ) as told where earlier"
            )
            .await,
        0
    );
}

#[test]
fn the_cheapest_poll_costs_no_more_than_any_other_second() {
    let database = Asked::new();
    let times = prop::collection::vec(0..60_000_i64, 1..30);

    for_all(40, &(times, 1_u32..6000), |(times, cost)| {
        let array = times.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let chosen =
            database.value(&format!("select tidegate.cheapest_poll(array[{array}]::float8[], {cost}, 0, 1, 300)"));
        let chosen: i64 = chosen.parse().unwrap();
        let costs = |second: i64| -> i64 {
            times.iter().map(|time| if second * 1000 >= *time { second * 1000 - time } else { i64::from(cost) }).sum()
        };
        // Never before the first of them, which would only put the question off.
        let first = (times.iter().min().unwrap() + 999) / 1000;
        let best = (first.max(1)..=61).map(costs).min().unwrap();
        prop_assert_eq!(costs(chosen), best, "{} of {:?}", chosen, times);
        Ok(())
    });
}

#[test]
fn jitter_makes_whole_seconds_never_earlier_and_never_later_than_allowed() {
    let database = Asked::new();
    for (from, to, seen) in [
        (60, "66", "{60,61,62,63,64,65,66}"),
        (4, "4.4", "{4,5}"),
        (300, "300", "{300}"),
        (5, "4", "{5}"),
        (0, "0", "{0}"),
        (0, "null", "{0}"),
    ] {
        let spread = database.value(&format!(
            "select array_agg(s order by s) from (
               select distinct tidegate_internal.spread_seconds({from}, {to}, share / 2000.0) as s
               from generate_series(0, 1999) as share
             ) as spread"
        ));
        assert_eq!(spread, seen, "{from} to {to}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_view_of_all_requests_tells_each_what_a_poll_would() {
    let database = observed().await;
    answered_in_three_to_five_seconds(&database).await;
    database.execute("update tidegate.queue set per_seconds = null where name = 'tx'").await;
    for (kind, status) in [
        ("direct", "receipt_received"),
        ("input_proof", "tx_in_flight"),
        ("direct", "tx_in_flight"),
        ("direct", "completed"),
        ("public_decrypt", "tx_in_flight"),
    ] {
        database.request_in(kind, status).await;
    }
    database.execute("update tidegate.queue set per_seconds = 3 where name = 'tx'").await;
    for kind in ["direct", "public_decrypt", "input_proof", "direct"] {
        database.submit(kind).await;
    }

    assert_eq!(
        database
            .number(
                "select count(*) from tidegate.request_eta as e, tidegate.request_outlook(e.id) as o
                 where e.retry_after_seconds = o.retry_after_seconds and e.place = o.place"
            )
            .await,
        9
    );
}
