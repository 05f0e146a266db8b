use super::*;

fn short() -> Config {
    let max = Some(milliseconds(50));
    Config { max, ..config() }
}

/// Slow, and one in eight times out.
fn overload(timeout: &mut AdaptiveTimeout, number: u64, now: Duration) {
    if number % 8 == 7 {
        time_out(timeout, now);
    } else {
        answer(timeout, milliseconds(49), now);
    }
}

/// Calls until there is high load, at this time.
fn overload_until_high(timeout: &mut AdaptiveTimeout, now: Duration) {
    let mut numbers = 0..400;
    while timeout.state() == State::Normal {
        overload(timeout, numbers.next().unwrap(), now);
    }
}

/// In high load since this interval, which began with a hundred calls a second.
fn overloaded() -> (AdaptiveTimeout, Duration) {
    let mut timeout = fresh(short());
    answer_each(&mut timeout, 400, milliseconds(5));
    for number in 0..100 {
        if timeout.state() == State::Normal {
            overload(&mut timeout, number, milliseconds(500));
        } else {
            timeout.begin(milliseconds(500));
            timeout.dropped(milliseconds(500));
        }
    }
    assert_eq!(timeout.state(), State::HighLoad);
    timeout.tick(milliseconds(5000));
    assert_eq!(timeout.estimate().high_load_rps, Some(100.0));
    (timeout, milliseconds(5000))
}

fn calls(timeout: &mut AdaptiveTimeout, count: u64, now: Duration) {
    answer_all(timeout, count, milliseconds(6), now);
}

#[test]
fn it_begins_when_a_computed_timeout_reaches_max_and_brings_the_best_case() {
    let (mut timeout, _) = overloaded();
    assert_eq!(timeout.timeout(), milliseconds(15), "three times 5 ms");
    let k_margin = timeout.estimate().k_margin;
    for _ in 0..200 {
        time_out(&mut timeout, milliseconds(5001));
        answer(&mut timeout, milliseconds(14), milliseconds(5001));
    }
    assert_eq!(timeout.timeout(), milliseconds(15));
    timeout.tick(milliseconds(10_000));
    assert_eq!(timeout.state(), State::HighLoad);
    assert_eq!(timeout.estimate().k_margin, k_margin, "locked");
}

#[test]
fn it_begins_after_thirty_two_computed_timeouts_of_max_in_a_row() {
    let mut timeout = fresh(short());
    answer_all(&mut timeout, 100, milliseconds(5), milliseconds(1));
    for number in 0..32 {
        assert_eq!(timeout.state(), State::Normal);
        overload(&mut timeout, number, milliseconds(1));
    }
    assert_eq!(timeout.state(), State::HighLoad);
}

#[test]
fn neither_the_initial_timeout_nor_one_sample_nor_computed_timeouts_of_max_at_which_nothing_fails_begin_it() {
    for (answers, expected) in [([1, 49], 50), ([20, 20], 21)] {
        let mut timeout = fresh(short());
        for number in 0..1000 {
            answer(&mut timeout, milliseconds(answers[number % 2]), milliseconds(number as u64));
            assert_eq!(timeout.state(), State::Normal);
        }
        assert_eq!(timeout.timeout(), milliseconds(expected));
    }
}

#[test]
fn where_no_interval_kept_the_target_the_best_case_has_room_for_how_much_samples_differ() {
    let mut timeout = fresh(short());
    answer(&mut timeout, milliseconds(1), milliseconds(1));
    overload_until_high(&mut timeout, milliseconds(1));
    assert_eq!(timeout.timeout(), milliseconds(3), "three times 1 ms");
    for number in 0..100 {
        let took = if number % 2 == 0 { 1 } else { 3 };
        answer(&mut timeout, milliseconds(took), milliseconds(2));
    }
    let given = timeout.timeout();
    assert!(milliseconds(4) < given && given < milliseconds(6), "{given:?}");
}

#[test]
fn as_the_source_has_it_one_computed_maximum_begins_it() {
    let mut timeout = fresh(Config { alarm_samples: 1, ..short() });
    answer(&mut timeout, milliseconds(16), milliseconds(1));
    assert_eq!(timeout.state(), State::Normal, "three times 16 ms");
    answer(&mut timeout, milliseconds(30), milliseconds(2));
    assert_eq!(timeout.state(), State::HighLoad);
}

#[test]
fn of_the_samples_that_begin_it_an_eighth_have_timed_out() {
    for (alarm_samples, failures, state) in [
        (7, 0, State::HighLoad),
        (8, 0, State::Normal),
        (8, 1, State::HighLoad),
        (80, 9, State::Normal),
        (80, 10, State::HighLoad),
    ] {
        let mut timeout = fresh(Config { alarm_samples, ..short() });
        for number in 0..alarm_samples {
            if number < failures {
                time_out(&mut timeout, milliseconds(1));
            } else {
                answer(&mut timeout, milliseconds(49), milliseconds(1));
            }
        }
        assert_eq!(timeout.state(), state, "{alarm_samples} samples, {failures} timed out");
    }
}

#[test]
fn the_best_case_is_that_of_the_best_interval_that_kept_the_target_or_as_the_source_has_it_the_minimum() {
    for (best_case, expected) in [(BestCase::Usual, microseconds_of(3 * 6985)), (BestCase::Minimum, milliseconds(3))] {
        let mut timeout = fresh(Config { best_case, ..short() });
        answer(&mut timeout, milliseconds(1), milliseconds(1));
        answer_all(&mut timeout, 399, milliseconds(7), milliseconds(2));
        timeout.tick(milliseconds(5000));
        let known = timeout.estimate();
        assert_eq!((known.min_ns, known.usual_ns), (Some(1_000_000), Some(6_985_000)));
        overload_until_high(&mut timeout, milliseconds(5001));
        assert_eq!(timeout.timeout(), expected, "{best_case:?}");
    }
}

#[test]
fn the_greatest_load_of_high_load_has_to_subside() {
    let (mut timeout, now) = overloaded();
    calls(&mut timeout, 1000, now);
    timeout.tick(now + milliseconds(5000));
    assert_eq!(timeout.estimate().high_load_rps, Some(200.0));
    calls(&mut timeout, 750, now + milliseconds(5000));
    timeout.tick(now + milliseconds(10_000));
    assert_eq!(timeout.state(), State::Normal);
}

#[test]
fn without_an_slo_or_a_max_there_is_none() {
    for config in [Config { slo: None, ..short() }, Config::default()] {
        let mut timeout = fresh(config);
        for _ in 0..100 {
            time_out(&mut timeout, milliseconds(1));
            assert_eq!(timeout.state(), State::Normal);
        }
    }
}

#[test]
fn it_ends_when_the_load_has_fallen_to_three_quarters() {
    for (calls_made, state) in [(376, State::HighLoad), (375, State::Normal)] {
        let (mut timeout, now) = overloaded();
        calls(&mut timeout, calls_made, now);
        timeout.tick(now + milliseconds(5000));
        assert_eq!(timeout.state(), state, "{calls_made} calls");
    }
}

#[test]
fn it_ends_after_twelve_intervals_whatever_the_load() {
    let (mut timeout, mut now) = overloaded();
    for interval in 1..=12 {
        assert_eq!(timeout.state(), State::HighLoad, "interval {interval}");
        calls(&mut timeout, 500, now);
        now += milliseconds(5000);
        timeout.tick(now);
    }
    assert_eq!(timeout.state(), State::Normal);
}

#[test]
fn samples_of_high_load_are_forgotten_when_it_ends() {
    let (mut timeout, now) = overloaded();
    calls(&mut timeout, 300, now);
    timeout.tick(now + milliseconds(5000));
    assert_eq!(timeout.state(), State::Normal);
    assert_eq!(timeout.srtt(), Some(milliseconds(6)));
    assert_eq!(timeout.timeout(), milliseconds(7));
    calls(&mut timeout, 100, now + milliseconds(5001));
    assert_eq!(timeout.state(), State::Normal, "it does not flap");
}

#[test]
fn a_margin_that_does_not_fit_below_max_shrinks_when_it_ends() {
    let known = Estimate {
        state: State::HighLoad,
        k_margin: 1_000_000,
        high_load_rps: Some(100.0),
        ..Estimate::unknown(&short(), 0)
    };
    let mut timeout = AdaptiveTimeout::resume(short(), known, Duration::ZERO).unwrap();
    calls(&mut timeout, 10, milliseconds(1));
    timeout.tick(milliseconds(5000));
    assert_eq!(timeout.state(), State::Normal);
    assert!(timeout.estimate().k_margin <= 11);
    calls(&mut timeout, 400, milliseconds(5001));
    assert_eq!(timeout.state(), State::Normal);
}

#[test]
fn idle_time_ends_it_with_the_next_call() {
    let (mut timeout, now) = overloaded();
    timeout.begin(now + Duration::from_secs(3600));
    assert_eq!(timeout.state(), State::Normal);
    assert_eq!(timeout.estimate().min_rtt_ns(None), None, "long ago");
}

#[test]
fn after_total_failure_answers_count_again() {
    let mut timeout = fresh(short());
    let mut now = Duration::ZERO;
    for _ in 0..2000 {
        now += milliseconds(10);
        answer(&mut timeout, milliseconds(5), now);
    }
    for _ in 0..10_000 {
        now += milliseconds(10);
        time_out(&mut timeout, now);
    }
    assert_eq!(timeout.timeout(), milliseconds(50), "as long as it may");
    for _ in 0..10_000 {
        now += milliseconds(10);
        call(&mut timeout, milliseconds(20), now);
    }
    assert_eq!(timeout.state(), State::Normal);
    assert_eq!(timeout.estimate().failure_rate, Some(0.0));
}
