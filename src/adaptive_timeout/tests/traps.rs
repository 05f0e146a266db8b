//! The estimator must not keep cutting off calls that the longest timeout would not cut off.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::*;

/// A dependency whose answers take `latency(seconds, two uniform numbers)` milliseconds, however many calls there are.
struct Dependency<L> {
    calls_per_second: u32,
    latency: L,
}

/// Two numbers above 0 and up to 1, the same in each run.
fn uniform(state: &mut u64) -> (f64, f64) {
    let mut next = || {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        ((*state >> 12) + 1) as f64 / (1_u64 << 52) as f64
    };
    (next(), next())
}

/// Log-normal with this median, in the median's unit.
fn log_normal(median: f64, spread: f64, (one, other): (f64, f64)) -> f64 {
    let normal = (-2.0 * one.ln()).sqrt() * (std::f64::consts::TAU * other).cos();
    median * (spread * normal).exp()
}

impl<L: Fn(u64, (f64, f64)) -> f64> Dependency<L> {
    /// The share of calls begun from second `from` to second `to` that timed out; the estimator runs from second 0.
    fn failed(&self, from: u64, to: u64) -> f64 {
        let mut timeout = fresh(config());
        let mut random = 0x9e37_79b9_7f4a_7c15;
        let mut ends = BinaryHeap::new();
        let (mut calls, mut failures) = (0_u32, 0_u32);
        let pause = Duration::from_secs(1) / self.calls_per_second;
        let mut now = Duration::ZERO;
        while now < Duration::from_secs(to) {
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
            let ms = (self.latency)(now.as_secs(), uniform(&mut random));
            let takes = Duration::from_secs_f64(ms.min(1e6) / 1000.0);
            ends.push(Reverse((now + takes.min(given), takes.min(given), takes <= given)));
            if now >= Duration::from_secs(from) {
                calls += 1;
                failures += u32::from(takes > given);
            }
        }
        f64::from(failures) / f64::from(calls)
    }
}

#[test]
fn a_share_of_calls_that_never_answer_does_not_cut_off_the_others() {
    for share in [0.01, 0.03, 0.1] {
        let dependency = Dependency {
            calls_per_second: 100,
            latency: |_, (one, other): (f64, f64)| {
                if one <= share {
                    f64::INFINITY
                } else {
                    log_normal(20.0, 0.5, ((one - share) / (1.0 - share), other))
                }
            },
        };
        let failed = dependency.failed(0, 1800);
        assert!(failed < share + 0.01, "{share}: {failed}");
    }
}

#[test]
fn a_slow_spell_is_over_when_it_is_over_whatever_the_load() {
    for (calls_per_second, slower, end) in [(100, 10.0, 600), (20_000, 10.0, 100), (20_000, 100.0, 100)] {
        let dependency = Dependency {
            calls_per_second,
            latency: |second, random| {
                let median = if (60..80).contains(&second) {
                    20.0 * slower
                } else {
                    20.0
                };
                log_normal(median, 1.0, random)
            },
        };
        let failed = dependency.failed(end - 10, end);
        assert!(
            failed < 0.03,
            "{calls_per_second} calls a second, {slower} times slower: {failed}"
        );
    }
}

#[test]
fn a_dependency_that_becomes_slow_for_good_is_waited_for_within_max() {
    let dependency = Dependency {
        calls_per_second: 100,
        latency: |second, random| log_normal(if second < 120 { 10.0 } else { 1000.0 }, 0.3, random),
    };
    let failed = dependency.failed(300, 900);
    assert!(failed < 0.03, "{failed}; 1 % takes longer than max");
}
