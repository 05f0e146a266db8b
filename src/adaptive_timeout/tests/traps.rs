//! The estimator must not keep cutting off calls that the longest timeout would not cut off.

use std::{cmp::Reverse, collections::BinaryHeap, ops::Range};

use rand::{Rng, SeedableRng, rngs::StdRng};
use rand_distr::{Distribution, LogNormal};

use super::*;

/// The share of calls begun in these seconds that timed out; the estimator runs from second 0. The dependency's answers
/// take `latency(second, random)` milliseconds, however many calls there are.
fn failed(calls_per_second: u32, seconds: Range<u64>, latency: impl Fn(u64, &mut StdRng) -> f64) -> f64 {
    let mut timeout = fresh(config());
    let mut random = StdRng::seed_from_u64(1);
    let mut ends = BinaryHeap::new();
    let (mut calls, mut failures) = (0_u32, 0_u32);
    let pause = Duration::from_secs(1) / calls_per_second;
    let mut now = Duration::ZERO;
    while now < Duration::from_secs(seconds.end) {
        now += pause;
        while let Some(&Reverse((end, took, is_answered))) = ends.peek()
            && end <= now
        {
            ends.pop();
            if is_answered {
                timeout.answered(took, end);
            } else {
                timeout.timed_out(took, end);
            }
        }
        let given = timeout.begin(now);
        let ms = latency(now.as_secs(), &mut random);
        let takes = Duration::from_secs_f64(ms.min(1e6) / 1000.0);
        ends.push(Reverse((now + takes.min(given), takes.min(given), takes <= given)));
        if now >= Duration::from_secs(seconds.start) {
            calls += 1;
            failures += u32::from(takes > given);
        }
    }
    f64::from(failures) / f64::from(calls)
}

fn log_normal(median: f64, spread: f64, random: &mut StdRng) -> f64 {
    LogNormal::new(median.ln(), spread).unwrap().sample(random)
}

#[test]
fn a_share_of_calls_that_never_answer_does_not_cut_off_the_others() {
    for share in [0.01, 0.03, 0.1] {
        let latency = |_, random: &mut StdRng| {
            let answered = log_normal(20.0, 0.5, random);
            if random.random_bool(share) {
                f64::INFINITY
            } else {
                answered
            }
        };
        let failed = failed(100, 0..1800, latency);
        assert!(failed < share + 0.01, "{share}: {failed}");
    }
}

#[test]
fn a_slow_spell_is_over_when_it_is_over_whatever_the_load() {
    for (calls_per_second, slower, end) in [(100, 10.0, 600), (20_000, 10.0, 100), (20_000, 100.0, 100)] {
        let latency = |second, random: &mut StdRng| {
            let is_slow = (60..80).contains(&second);
            log_normal(if is_slow { 20.0 * slower } else { 20.0 }, 1.0, random)
        };
        let failed = failed(calls_per_second, end - 10..end, latency);
        assert!(
            failed < 0.03,
            "{calls_per_second} a second, {slower} times slower: {failed}"
        );
    }
}

#[test]
fn a_dependency_that_becomes_slow_permanently_is_waited_for_within_max() {
    let median = |second| if second < 120 { 10.0 } else { 1000.0 };
    let failed = failed(100, 300..900, |second, random| log_normal(median(second), 0.3, random));
    assert!(failed < 0.03, "{failed}; 1 % takes longer than max");
}
