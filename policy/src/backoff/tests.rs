//! Waits stay where they are promised to stay.

use proptest::prelude::*;

use super::*;
use crate::testing::milliseconds;

fn backoff(base: u64, factor: f64, cap: u64, jitter: u64) -> Backoff {
    Backoff { base: milliseconds(base), factor, cap: milliseconds(cap), jitter: milliseconds(jitter) }
}

#[test]
fn waits_grow_up_to_the_cap() {
    let backoff = backoff(500, 2.0, 3000, 0);
    let waits: Vec<_> = (0..=5).map(|k| backoff.delay(k, 0.0).as_millis()).collect();
    assert_eq!(waits, [500, 500, 1000, 2000, 3000, 3000]);
}

#[test]
fn jitter_stays_within_nothing_and_the_cap() {
    let backoff = backoff(500, 2.0, 1000, 800);
    assert_eq!(backoff.delay(1, -1.0), Duration::ZERO);
    assert_eq!(backoff.delay(1, 0.25), milliseconds(700));
    assert_eq!(backoff.delay(2, 0.5), milliseconds(1000));
    assert_eq!(backoff.delay(2, -0.5), milliseconds(600));
    assert_eq!(backoff.upper_bound(0), milliseconds(1000));
}

#[test]
fn odd_numbers_do_not_break_it() {
    for factor in [f64::INFINITY, f64::NAN, -2.0, 0.0, 1e308] {
        for base in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
            for cap in [Duration::ZERO, milliseconds(5), Duration::MAX] {
                for jitter in [Duration::ZERO, Duration::MAX] {
                    let backoff = Backoff { base, factor, cap, jitter };
                    for random in [-1.0, 0.0, 1.0, f64::NAN, f64::INFINITY] {
                        assert!(backoff.delay(u32::MAX, random) <= cap);
                        assert!(backoff.delay(0, random) <= cap);
                    }
                    assert!(backoff.upper_bound(u32::MAX) <= cap);
                }
            }
        }
    }
    assert_eq!(backoff(1, 2.0, 10, 0).sum_of_bounds(u32::MAX), milliseconds(15) + milliseconds(10) * (u32::MAX - 4),);
}

#[test]
fn a_sum_of_waits_that_do_not_grow_is_a_product() {
    assert_eq!(backoff(7, 1.0, 1000, 3).sum_of_bounds(1_000_000_000), milliseconds(10_000_000_000));
    assert_eq!(backoff(0, 9.0, 1000, 3).sum_of_bounds(100), milliseconds(300));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_wait_with_jitter_is_always_within_the_cap_and_its_bound(
        base in 0..=i32::MAX as u64,
        factor in 1.0..1000.0_f64,
        cap in 0..=i32::MAX as u64,
        jitter in 0..=i32::MAX as u64,
        attempt in prop_oneof![0..40_u32, any::<u32>()],
        random in -1.0..1.0_f64,
    ) {
        let backoff = backoff(base, factor, cap, jitter);
        let wait = backoff.delay(attempt, random);
        prop_assert!(wait <= milliseconds(cap));
        prop_assert!(wait <= backoff.upper_bound(attempt.saturating_sub(1)));
    }

    #[test]
    fn a_sum_of_bounds_is_that(
        base in 0..5_000_u64,
        factor in 1.0..3.0_f64,
        cap in 0..100_000_u64,
        jitter in 0..5_000_u64,
        waits in 0..60_u32,
    ) {
        let backoff = backoff(base, factor, cap, jitter);
        let sum: Duration = (0..waits).map(|k| backoff.upper_bound(k)).sum();
        prop_assert_eq!(backoff.sum_of_bounds(waits), sum);
    }
}

#[test]
fn a_sum_of_waits_without_end_is_known_at_once_even_when_they_shrink() {
    for factor in [0.5, 0.0, f64::NAN] {
        let backoff = Backoff { factor, ..Backoff::default() };
        let longest = backoff.cap.saturating_mul(u32::MAX);
        assert!(backoff.sum_of_bounds(u32::MAX) <= longest, "{factor}");
    }
}
