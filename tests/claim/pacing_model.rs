//! Does the pacing arithmetic agree with an exact model, whatever the clock does?

use proptest::prelude::*;
use sqlx::{PgPool, Row};

use crate::support::TestDatabase;

const RESERVATION_NS: i128 = 100_000_000;

/// A claim in virtual time.
#[derive(Debug, Clone)]
struct Step {
    /// How far the clock moves before it, in microseconds; may be negative.
    clock: i64,
    batch: i32,
}

/// The answer of `pacing_slots`.
struct Pacing {
    slots: i32,
    tat_ns: i64,
    interval_ns: i64,
    tolerance_ns: i64,
    wait_ms: i32,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let moves = prop_oneof![
        8 => 0..200_000_i64,
        2 => 0..2_000_000_i64,
        1 => -3_600_000_000..3_600_000_000_i64,
    ];
    prop::collection::vec((moves, 0..50_i32).prop_map(|(clock, batch)| Step { clock, batch }), 1..60)
}

async fn ask(pool: &PgPool, stored: Option<i64>, rate: &str, burst: i32, now_us: i64) -> Pacing {
    let row = sqlx::query(
        "select slots, tat_ns, interval_ns, tolerance_ns, wait_ms
         from tidegate_internal.pacing_slots(
           $1, $2::numeric, $3,
           to_timestamp($4::bigint / 1000000) + $4::bigint % 1000000 * interval '1 microsecond'
         )",
    )
    .bind(stored)
    .bind(rate)
    .bind(burst)
    .bind(now_us)
    .fetch_one(pool)
    .await
    .unwrap();
    Pacing {
        slots: row.get("slots"),
        tat_ns: row.get("tat_ns"),
        interval_ns: row.get("interval_ns"),
        tolerance_ns: row.get("tolerance_ns"),
        wait_ms: row.get("wait_ms"),
    }
}

/// The steps against the model: exact nanoseconds, and all sends since the clock last stepped back.
async fn run(pool: &PgPool, rate: &str, burst: i32, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let per_seconds: f64 = rate.parse().unwrap();
    let gap = (1e9 / per_seconds).ceil() as i128;
    let tolerance = i128::from(burst - 1) * gap;
    let mut now_us = 1_900_000_000_000_000_i64;
    let mut stored = None;
    let mut sends: Vec<i128> = Vec::new();
    for step in steps {
        now_us += step.clock;
        if step.clock < 0 {
            sends.clear();
        }
        let now = i128::from(now_us) * 1000;
        let said = ask(pool, stored, rate, burst, now_us).await;
        prop_assert_eq!(i128::from(said.interval_ns), gap);
        prop_assert_eq!(i128::from(said.tolerance_ns), tolerance);

        let furthest = now + RESERVATION_NS + tolerance + gap;
        let tat = now.max(furthest.min(i128::from(stored.unwrap_or(0))));
        let ahead = now + RESERVATION_NS + tolerance - tat;
        let slots = if ahead < 0 { 0 } else { (ahead / gap + 1).min(1_000_000) };
        prop_assert_eq!(i128::from(said.tat_ns), tat);
        prop_assert_eq!(i128::from(said.slots), slots);

        // As a claim does: stores the refilled slots, then the sends.
        if stored.is_some_and(|stored| stored > said.tat_ns) {
            stored = Some(said.tat_ns);
        }
        if said.slots == 0 {
            // Never stuck: the wait is no longer than one gap, and it leads to a slot.
            prop_assert!(said.wait_ms >= 1 && i128::from(said.wait_ms) <= gap / 1_000_000 + 1);
            let later = ask(pool, stored, rate, burst, now_us + i64::from(said.wait_ms) * 1000).await;
            prop_assert!(later.slots >= 1);
        } else {
            prop_assert_eq!(said.wait_ms, 0);
        }
        let taken = i128::from(step.batch.min(said.slots));
        sends.extend((0..taken).map(|number| now.max(tat + number * gap - tolerance)));
        if taken > 0 {
            stored = Some(i64::try_from(tat + taken * gap).unwrap());
        }
    }

    sends.sort_unstable();
    let allowed = per_seconds.floor() as usize + usize::try_from(burst).unwrap();
    let mut first = 0;
    for last in 0..sends.len() {
        while sends[last] - sends[first] >= 1_000_000_000 {
            first += 1;
        }
        prop_assert!(last - first < allowed, "{} in a second", last - first + 1);
    }
    Ok(())
}

#[test]
fn pacing_slots_never_exceed_the_rate_and_are_never_stuck() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let database = runtime.block_on(TestDatabase::unlimited());
    let rates = prop::sample::select(vec!["1", "3", "7", "10", "333", "4999", "5000", "1000000", "0.5", "0.01"]);
    let config = ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(rate in rates, burst in 1..50_i32, steps in steps())| {
        runtime.block_on(run(&database.pool, rate, burst, steps))?;
    });
}
