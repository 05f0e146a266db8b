//! Do the policies of the library reckon as those of the database do, and as their document says?

use std::time::Duration;

use rand::{Rng, SeedableRng, rngs::StdRng};
use tidegate_policy::Backoff;

use crate::support::TestDatabase;

/// The whole range of a policy's values, and small numbers, where the edges are.
fn random_backoff(random: &mut StdRng) -> (i32, f64, i32, i32) {
    let most = *[3, 1000, 3_600_000, i32::MAX].get(random.random_range(0..4)).unwrap();
    let base = random.random_range(0..=most);
    let factor = match random.random_range(0..4) {
        0 => 1.0,
        1 => 2.0,
        2 => f64::from(random.random_range(100..400)) / 100.0,
        _ => f64::from(random.random_range(100..100_001)) / 100.0,
    };
    let cap = random.random_range(base..=most);
    (base, factor, cap, random.random_range(0..=most))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_library_and_the_database_give_the_same_backoff() {
    const CASES: usize = 20_000;
    let seed = rand::rng().random::<u64>();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let (mut attempts, mut draws) = (Vec::new(), Vec::new());
    let (mut bases, mut factors, mut caps, mut jitters) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for case in 0..CASES {
        let (base, factor, cap, jitter) = random_backoff(&mut random);
        bases.push(base);
        factors.push(factor);
        caps.push(cap);
        jitters.push(jitter);
        attempts.push(match case % 3 {
            0 => random.random_range(1..12),
            1 => random.random_range(1..1001),
            _ => random.random_range(0..i32::MAX),
        });
        draws.push(random.random_range(-1.0..1.0_f64));
    }

    let database = TestDatabase::new().await;
    let in_database: Vec<i64> = sqlx::query_scalar(
        "select (extract(epoch from tidegate_internal.backoff(
           c.attempt, c.base, c.factor::numeric, c.cap, c.jitter, c.random)) * 1000000)::bigint
         from unnest($1::integer[], $2::integer[], $3::float8[], $4::integer[], $5::integer[], $6::float8[])
           with ordinality as c(attempt, base, factor, cap, jitter, random, place)
         order by c.place",
    )
    .bind(&attempts)
    .bind(&bases)
    .bind(&factors)
    .bind(&caps)
    .bind(&jitters)
    .bind(&draws)
    .fetch_all(&database.pool)
    .await
    .unwrap();

    assert_eq!(in_database.len(), CASES);
    for (case, theirs) in in_database.into_iter().enumerate() {
        let milliseconds = |value: i32| Duration::from_millis(value.unsigned_abs().into());
        let backoff = Backoff {
            base: milliseconds(bases[case]),
            factor: factors[case],
            cap: milliseconds(caps[case]),
            jitter: milliseconds(jitters[case]),
        };
        let ours = backoff.delay(attempts[case].unsigned_abs(), draws[case]);
        let theirs = Duration::from_micros(theirs.try_into().expect("no wait is negative"));
        assert!(
            ours.abs_diff(theirs) <= Duration::from_micros(1),
            "{backoff:?}, attempt {}, random {}: {ours:?} here, {theirs:?} there; seed {seed}",
            attempts[case],
            draws[case],
        );
    }
}

#[test]
fn the_example_in_the_document_is_the_one_that_is_tried() {
    let document = include_str!("../../docs/policies.md");
    let (_, block) = document.split_once("```rust\n").unwrap();
    let (example, _) = block.split_once("```").unwrap();
    let tried: String = include_str!("../../policy/src/lib.rs")
        .lines()
        .filter_map(|line| line.strip_prefix("//!"))
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
        .filter(|line| !line.starts_with("# "))
        .fold(String::new(), |text, line| text + line + "\n");
    assert!(tried.contains(example), "{tried}");
}
