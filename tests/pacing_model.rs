//! Does the pacing arithmetic agree with an exact model, whatever the clock does?

use proptest::prelude::*;
use sqlx::Row;

use crate::support::TestDatabase;

/// Virtual time, exact arithmetic: claims at random moments, of random sizes, with the clock stepping.
#[derive(Debug, Clone)]
struct Step {
    /// How far the clock moves before this claim, in microseconds; may be negative.
    clock: i64,
    batch: i32,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let moves = prop_oneof![
        8 => 0..200_000_i64,
        2 => 0..2_000_000_i64,
        1 => -3_600_000_000..3_600_000_000_i64,
    ];
    prop::collection::vec(
        (moves, 0..50_i32).prop_map(|(clock, batch)| Step { clock, batch }),
        1..60,
    )
}

#[test]
fn pacing_slots_never_exceed_the_rate_and_are_never_stuck() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let database = runtime.block_on(TestDatabase::unlimited());
    let pool = database.pool.clone();
    let rates = prop::sample::select(vec![
        "1", "3", "7", "10", "333", "4999", "5000", "1000000", "0.5", "0.01",
    ]);
    let config = ProptestConfig {
        cases: 40,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    proptest!(config, |(rate in rates, burst in 1..50_i32, steps in steps())| {
        runtime.block_on(async {
            let rate_f: f64 = rate.parse().unwrap();
            let gap = (1e9 / rate_f).ceil() as i128;
            let tolerance = i128::from(burst - 1) * gap;
            let mut now_us = 1_900_000_000_000_000_i64;
            let mut stored: Option<i64> = None;
            // The model: the arrival time in exact nanoseconds. Sends since the clock last stepped back.
            let mut sends: Vec<i128> = Vec::new();
            for step in steps {
                now_us += step.clock;
                if step.clock < 0 {
                    sends.clear();
                }
                let now = i128::from(now_us) * 1000;
                let row = sqlx::query(
                    "select slots, tat_ns, interval_ns, tolerance_ns, wait_ms
                     from tidegate.pacing_slots($1, $2::numeric, $3, to_timestamp($4::bigint / 1000000) + $4::bigint % 1000000 * interval '1 microsecond')",
                )
                .bind(stored).bind(rate).bind(burst).bind(now_us)
                .fetch_one(&pool).await.unwrap();
                let slots: i32 = row.get("slots");
                let (tat, wait): (i64, i32) = (row.get("tat_ns"), row.get("wait_ms"));
                prop_assert_eq!(i128::from(row.get::<i64, _>("interval_ns")), gap);
                prop_assert_eq!(i128::from(row.get::<i64, _>("tolerance_ns")), tolerance);

                let ceiling = now + 100_000_000 + tolerance + gap;
                let model_tat = now.max(ceiling.min(i128::from(stored.unwrap_or(0))));
                let ahead = now + 100_000_000 + tolerance - model_tat;
                let model_slots = if ahead < 0 { 0 } else { (ahead / gap + 1).min(1_000_000) };
                prop_assert_eq!(i128::from(tat), model_tat);
                prop_assert_eq!(i128::from(slots), model_slots);
                if slots == 0 {
                    // Never stuck: the wait leads to a slot, and is no longer than one gap.
                    prop_assert!(wait >= 1 && i128::from(wait) <= gap / 1_000_000 + 1);
                } else {
                    prop_assert_eq!(wait, 0);
                }

                let taken = i128::from(step.batch.min(slots));
                for number in 0..taken {
                    sends.push(now.max(i128::from(tat) + number * gap - tolerance));
                }
                if taken > 0 {
                    stored = Some(i64::try_from(i128::from(tat) + taken * gap).unwrap());
                }
            }
            sends.sort_unstable();
            let allowed = rate_f.floor() as usize + usize::try_from(burst).unwrap();
            let mut first = 0;
            for last in 0..sends.len() {
                while sends[last] - sends[first] >= 1_000_000_000 {
                    first += 1;
                }
                prop_assert!(last - first < allowed, "{} in a second", last - first + 1);
            }
            Ok(())
        })?;
    });
    drop(pool);
    runtime.block_on(async { drop(database) });
}
