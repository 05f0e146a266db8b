use std::time::Duration;

use super::*;

mod high_load;
mod intervals;
mod properties;
mod samples;

const fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

const fn microseconds_of(count: u64) -> Duration {
    Duration::from_micros(count)
}

/// max 2 s, min 1 ms, SLO 1 %, intervals of 5 s.
fn config() -> Config {
    Config { max: Some(milliseconds(2000)), ..Config::default() }
}

fn fresh(config: Config) -> AdaptiveTimeout {
    AdaptiveTimeout::new(config, Duration::ZERO).unwrap()
}

/// With another configuration than [`config`].
fn fresh_with(change: impl FnOnce(&mut Config)) -> AdaptiveTimeout {
    let mut config = config();
    change(&mut config);
    fresh(config)
}

/// Begins a call and answers it at once, in the clock's sense.
fn answer(timeout: &mut AdaptiveTimeout, took: Duration, now: Duration) {
    timeout.begin(now);
    timeout.answered(took, now);
}

/// Answers all of these calls at one time.
fn answer_all(timeout: &mut AdaptiveTimeout, count: u64, took: Duration, now: Duration) {
    for _ in 0..count {
        answer(timeout, took, now);
    }
}

/// Answers one call each millisecond.
fn answer_each(timeout: &mut AdaptiveTimeout, count: u64, took: Duration) {
    for number in 0..count {
        answer(timeout, took, milliseconds(number));
    }
}

fn time_out(timeout: &mut AdaptiveTimeout, now: Duration) {
    let given = timeout.begin(now);
    timeout.timed_out(given, now);
}

/// Begins a call that needs `takes`, and ends it at once, in the clock's sense; returns its timeout.
fn call(timeout: &mut AdaptiveTimeout, takes: Duration, now: Duration) -> Duration {
    let given = timeout.begin(now);
    if takes <= given {
        timeout.answered(takes, now);
    } else {
        timeout.timed_out(given, now);
    }
    given
}
