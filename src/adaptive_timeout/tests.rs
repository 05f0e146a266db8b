use std::time::Duration;

use proptest::prelude::*;

use super::*;

const fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

const fn microseconds_of(count: u64) -> Duration {
    Duration::from_micros(count)
}

/// max 2 s, min 1 ms, SLO 1 %, intervals of 5 s.
fn config() -> Config {
    Config {
        max: Some(milliseconds(2000)),
        ..Config::default()
    }
}

fn fresh(config: Config) -> AdaptiveTimeout {
    AdaptiveTimeout::new(config, Duration::ZERO).unwrap()
}

/// Begins a call and answers it at once, in the clock's sense.
fn answer(timeout: &mut AdaptiveTimeout, took: Duration, now: Duration) {
    timeout.begin(now);
    timeout.answered(took, now);
}

fn time_out(timeout: &mut AdaptiveTimeout, now: Duration) {
    let given = timeout.begin(now);
    timeout.timed_out(given, now);
}

mod samples {
    use super::*;

    #[test]
    fn before_any_sample_the_timeout_is_max_or_a_second_without_max() {
        assert_eq!(fresh(config()).timeout(), milliseconds(2000));
        assert_eq!(fresh(Config::default()).timeout(), milliseconds(1000));
    }

    #[test]
    fn the_first_sample_counts_three_times() {
        let mut timeout = fresh(config());
        answer(&mut timeout, milliseconds(100), milliseconds(100));
        assert_eq!(timeout.srtt(), Some(milliseconds(100)));
        assert_eq!(timeout.rttvar(), Some(milliseconds(50)));
        assert_eq!(timeout.timeout(), milliseconds(300));
    }

    #[test]
    fn the_vectors_of_rfc_6298_are_exact() {
        let mut timeout = fresh(config());
        let mut seen = Vec::new();
        for took in [100, 200, 150] {
            answer(&mut timeout, milliseconds(took), milliseconds(took));
            seen.push((timeout.srtt(), timeout.rttvar(), timeout.timeout()));
        }
        let expected = [
            (100_000, 50_000, 300_000),
            (112_500, 62_500, 362_500),
            (117_187, 56_250, 342_187),
        ];
        for ((srtt, rttvar, rto), (srtt_us, rttvar_us, rto_us)) in seen.into_iter().zip(expected) {
            let whole = |duration: Option<Duration>| duration.map(|some| some.as_micros());
            assert_eq!(whole(srtt), Some(srtt_us));
            assert_eq!(whole(rttvar), Some(rttvar_us));
            assert_eq!(rto.as_micros(), rto_us);
        }
        assert_eq!(timeout.srtt(), Some(Duration::from_nanos(117_187_500)));
        assert_eq!(timeout.timeout(), Duration::from_nanos(342_187_500));
    }

    #[test]
    fn the_margin_multiplies_the_deviation_from_the_second_sample_on() {
        let mut timeout = fresh(Config {
            k_margin: 3,
            ..config()
        });
        answer(&mut timeout, milliseconds(100), milliseconds(100));
        assert_eq!(timeout.timeout(), milliseconds(300));
        answer(&mut timeout, milliseconds(200), milliseconds(300));
        assert_eq!(timeout.timeout(), microseconds_of(112_500 + 3 * 250_000));
    }

    #[test]
    fn the_deviation_counts_as_a_millisecond_at_least() {
        let mut timeout = fresh(config());
        for number in 1..200 {
            answer(&mut timeout, milliseconds(20), milliseconds(number));
        }
        assert_eq!(timeout.srtt(), Some(milliseconds(20)));
        assert_eq!(timeout.timeout(), milliseconds(21));
    }

    #[test]
    fn the_timeout_is_kept_within_min_and_max() {
        let mut short = fresh(Config {
            min: milliseconds(40),
            ..config()
        });
        answer(&mut short, milliseconds(1), milliseconds(1));
        assert_eq!(short.timeout(), milliseconds(40));

        let mut long = fresh(config());
        answer(&mut long, milliseconds(1500), milliseconds(1500));
        assert_eq!(long.timeout(), milliseconds(2000));
    }

    #[test]
    fn a_call_that_timed_out_is_a_sample_of_its_timeout() {
        let (mut timed_out, mut answered) = (fresh(config()), fresh(config()));
        for timeout in [&mut timed_out, &mut answered] {
            answer(timeout, milliseconds(100), milliseconds(1));
        }
        timed_out.begin(milliseconds(2));
        timed_out.timed_out(milliseconds(300), milliseconds(302));
        answer(&mut answered, milliseconds(300), milliseconds(302));
        assert_eq!(timed_out.srtt(), answered.srtt());
        assert_eq!(timed_out.rttvar(), answered.rttvar());
        assert_eq!(timed_out.timeout(), answered.timeout());
    }

    #[test]
    fn without_an_slo_a_timeout_doubles_up_to_max_once_for_all_calls_that_had_it() {
        let mut timeout = fresh(Config {
            slo: None,
            ..config()
        });
        answer(&mut timeout, milliseconds(100), milliseconds(1));
        for _ in 0..5 {
            timeout.begin(milliseconds(2));
        }
        for _ in 0..5 {
            timeout.timed_out(milliseconds(300), milliseconds(302));
        }
        assert_eq!(timeout.timeout(), milliseconds(600));
        for expected in [1200, 2000, 2000] {
            time_out(&mut timeout, milliseconds(400));
            assert_eq!(timeout.timeout(), milliseconds(expected));
        }
        assert_eq!(timeout.state(), State::Normal);
    }

    #[test]
    fn without_an_slo_or_max_doubling_ends_at_a_minute() {
        let mut timeout = fresh(Config {
            slo: None,
            ..Config::default()
        });
        for expected in [2, 4, 8, 16, 32, 60, 60] {
            time_out(&mut timeout, milliseconds(1));
            assert_eq!(timeout.timeout(), Duration::from_secs(expected));
        }
    }

    #[test]
    fn what_tells_nothing_changes_nothing_but_the_calls_in_flight() {
        let mut timeout = fresh(config());
        answer(&mut timeout, milliseconds(100), milliseconds(1));
        timeout.begin(milliseconds(2));
        assert_eq!(timeout.in_flight(), 1);
        timeout.dropped(milliseconds(3));
        assert_eq!(timeout.in_flight(), 0);
        timeout.dropped(milliseconds(3));
        assert_eq!(timeout.in_flight(), 0);
        assert_eq!(timeout.timeout(), milliseconds(300));
    }
}

mod intervals {
    use super::*;

    /// An estimate before the end of its interval, at which `now_us` is.
    fn known(k_margin: u32) -> Estimate {
        Estimate {
            srtt_ns: Some(10_000_000),
            rttvar_ns: Some(1_000_000),
            srto_ns: Some(30_000_000),
            k_margin,
            ..Estimate::unknown(&config(), 0)
        }
    }

    fn seen(responses: u64, failures: u64) -> Report {
        Report {
            requests: responses,
            responses,
            failures,
            mean_ns: Some(10_000_000),
            smoothed_ns: Some([10_000_000, 1_000_000, 30_000_000]),
            load_rps: responses as f64 / 5.0,
            ..Report::default()
        }
    }

    fn closed(mut known: Estimate, report: &Report) -> Estimate {
        known.fold(&config(), report, 0.0, 5_000_000);
        known
    }

    #[test]
    fn half_of_the_target_failure_rate_widens_the_margin_by_one() {
        assert_eq!(closed(known(3), &seen(200, 1)).k_margin, 4, "0.5 %");
        assert_eq!(closed(known(3), &seen(400, 200)).k_margin, 4, "half");
    }

    #[test]
    fn less_narrows_it_towards_the_middle_between_srtt_and_srto() {
        // (30 + 10) / (2 · 30) = 2/3
        for (before, after) in [(1, 1), (2, 1), (3, 2), (6, 4), (10, 6), (100, 66)] {
            let known = closed(known(before), &seen(201, 1));
            assert_eq!(known.k_margin, after, "from {before}");
        }
    }

    #[test]
    fn a_margin_is_kept_when_a_narrower_one_would_have_cut_off_too_many() {
        for (late, after) in [(8, 4), (9, 6)] {
            let report = Report {
                late,
                ..seen(2000, 1)
            };
            assert_eq!(
                closed(known(6), &report).k_margin,
                after,
                "{late} late answers"
            );
        }
    }

    #[test]
    fn answers_are_late_that_the_narrower_margin_would_have_cut_off() {
        let mut known = fresh(Config {
            k_margin: 6,
            ..config()
        });
        for number in 0..300 {
            answer(&mut known, milliseconds(10), milliseconds(number));
        }
        // 10 ms + 6 · 1 ms; narrowed by (16 + 10) / 32 to 4. Three of 453 are more than half of the target.
        assert_eq!(known.timeout(), milliseconds(16));
        for (took, k_margin) in [(14, 4), (15, 6)] {
            let mut timeout = known.clone();
            for number in 1..=3 {
                answer(
                    &mut timeout,
                    milliseconds(took),
                    milliseconds(number * 1000),
                );
                for _ in 0..50 {
                    answer(&mut timeout, milliseconds(10), milliseconds(number * 1000));
                }
            }
            timeout.tick(milliseconds(5000));
            assert_eq!(timeout.k_margin(), k_margin, "{took} ms");
        }
    }

    #[test]
    fn an_interval_with_too_few_samples_says_nothing_and_is_closed_all_the_same() {
        for report in [seen(199, 0), seen(199, 199), seen(0, 0)] {
            let known = closed(known(7), &report);
            assert_eq!(known.k_margin, 7);
            assert_eq!(known.failure_rate, None);
            assert_eq!((known.interval_no, known.responses), (1, 0));
            assert_eq!(known.began_us, 5_000_000);
        }
    }

    #[test]
    fn an_interval_lasts_until_its_time_is_over_or_ten_times_enough_samples_have_come() {
        let mut open = known(3);
        open.fold(&config(), &seen(300, 0), 0.0, 4_999_999);
        assert_eq!(
            (open.interval_no, open.responses, open.k_margin),
            (0, 300, 3)
        );
        open.fold(&config(), &seen(1699, 0), 0.0, 4_999_999);
        assert_eq!((open.interval_no, open.responses), (0, 1999));
        open.fold(&config(), &seen(1, 0), 0.0, 4_999_999);
        assert_eq!((open.interval_no, open.responses, open.k_margin), (1, 0, 2));
    }

    #[test]
    fn calls_in_flight_at_its_end_count_in_the_interval_in_which_they_end() {
        let mut timeout = fresh(config());
        for _ in 0..400 {
            timeout.begin(milliseconds(4900));
        }
        for _ in 0..200 {
            timeout.answered(milliseconds(10), milliseconds(4950));
        }
        timeout.tick(milliseconds(5000));
        assert_eq!(timeout.estimate().failure_rate, Some(0.0));
        assert_eq!(timeout.estimate().load_rps, Some(80.0));
        assert_eq!(timeout.in_flight(), 200);
        for _ in 0..200 {
            timeout.timed_out(milliseconds(100), milliseconds(5050));
        }
        timeout.tick(milliseconds(10_000));
        assert_eq!(timeout.estimate().failure_rate, Some(1.0));
        assert_eq!(timeout.estimate().load_rps, Some(0.0));
    }

    #[test]
    fn a_clock_that_is_set_back_begins_the_interval_anew() {
        let mut known = Estimate {
            began_us: 3_600_000_000,
            ..known(3)
        };
        known.fold(&config(), &seen(300, 0), 0.0, 1_000_000);
        assert_eq!((known.interval_no, known.began_us), (0, 1_000_000));
        known.fold(&config(), &seen(0, 0), 0.0, 6_000_000);
        assert_eq!(known.interval_no, 1);
    }

    #[test]
    fn reports_of_several_processes_add_up_weighed_by_their_samples() {
        let mut known = known(3);
        known.fold(&config(), &seen(100, 0), 0.0, 1_000_000);
        let slower = Report {
            smoothed_ns: Some([22_000_000, 4_000_000, 60_000_000]),
            min_ns: Some(4_000_000),
            ..seen(50, 5)
        };
        known.fold(&config(), &slower, 20.0, 2_000_000);
        assert_eq!((known.responses, known.failures), (150, 5));
        assert_eq!(known.srtt_ns, Some(14_000_000));
        assert_eq!(known.rttvar_ns, Some(2_000_000));
        assert_eq!(known.srto_ns, Some(40_000_000));
        assert_eq!(known.min_ns, Some(4_000_000));
        assert_eq!(known.timeout_ns, 14_000_000 + 3 * 8_000_000);
        known.fold(&config(), &seen(0, 0), 30.0, 5_000_000);
        assert_eq!(known.load_rps, Some(30.0), "what everybody said last");
    }

    #[test]
    fn while_too_many_calls_fail_one_that_times_out_asks_for_the_best_case() {
        let mut timeout = fresh(config());
        for number in 0..300 {
            answer(&mut timeout, milliseconds(10), milliseconds(number));
        }
        for _ in 0..10 {
            time_out(&mut timeout, milliseconds(400));
        }
        timeout.tick(milliseconds(5000));
        assert!(
            timeout
                .estimate()
                .failure_rate
                .is_some_and(|rate| rate >= 0.005)
        );
        for _ in 0..20 {
            answer(&mut timeout, milliseconds(100), milliseconds(5001));
        }
        assert!(timeout.timeout() > milliseconds(100));
        time_out(&mut timeout, milliseconds(5100));
        assert_eq!(
            timeout.timeout(),
            milliseconds(30),
            "three times the shortest, 10 ms"
        );

        for _ in 0..200 {
            answer(&mut timeout, milliseconds(10), milliseconds(5200));
        }
        let shorter = timeout.timeout();
        assert!(shorter < milliseconds(30));
        time_out(&mut timeout, milliseconds(5300));
        assert_eq!(timeout.timeout(), shorter, "never a longer one");
    }

    #[test]
    fn when_nothing_at_all_answers_the_minimum_is_forgotten() {
        let mut timeout = fresh(config());
        for number in 0..300 {
            answer(&mut timeout, milliseconds(10), milliseconds(number));
        }
        timeout.tick(milliseconds(5000));
        assert_eq!(timeout.estimate().min_ns, Some(10_000_000));
        for _ in 0..300 {
            time_out(&mut timeout, milliseconds(6000));
        }
        timeout.tick(milliseconds(10_000));
        assert_eq!(timeout.estimate().min_ns, None);
        assert_eq!(timeout.estimate().min_before_ns, None);
    }

    #[test]
    fn the_minimum_is_that_of_the_last_six_to_twelve_intervals() {
        let mut known = known(1);
        let lucky = Report {
            min_ns: Some(1_000_000),
            ..seen(300, 0)
        };
        let usual = Report {
            min_ns: Some(8_000_000),
            ..seen(300, 0)
        };
        let mut minima = Vec::new();
        for interval in 1..=13_u64 {
            let report = if interval == 1 { &lucky } else { &usual };
            known.fold(&config(), report, 0.0, interval * 5_000_000);
            minima.push(known.min_rtt_ns(None).unwrap() / 1_000_000);
        }
        assert_eq!(minima, [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 8, 8]);
    }
}

mod high_load {
    use super::*;

    fn short() -> Config {
        Config {
            max: Some(milliseconds(50)),
            ..Config::default()
        }
    }

    /// In high load since this interval, which began with a hundred calls a second.
    fn overloaded() -> (AdaptiveTimeout, Duration) {
        let mut timeout = fresh(short());
        for number in 0..400 {
            answer(&mut timeout, milliseconds(5), milliseconds(number));
        }
        for _ in 0..100 {
            if timeout.state() == State::Normal {
                answer(&mut timeout, milliseconds(49), milliseconds(500));
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
        for _ in 0..count {
            answer(timeout, milliseconds(6), now);
        }
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
    fn it_takes_thirty_two_computed_timeouts_of_max_in_a_row() {
        let mut timeout = fresh(short());
        for _ in 0..100 {
            answer(&mut timeout, milliseconds(5), milliseconds(1));
        }
        for _ in 0..32 {
            assert_eq!(timeout.state(), State::Normal);
            answer(&mut timeout, milliseconds(49), milliseconds(1));
        }
        assert_eq!(timeout.state(), State::HighLoad);
    }

    #[test]
    fn by_the_letter_of_the_seed_it_takes_one() {
        let mut timeout = fresh(Config {
            constants: Constants {
                alarm_samples: 1,
                ..Constants::default()
            },
            ..short()
        });
        answer(&mut timeout, milliseconds(20), milliseconds(1));
        assert_eq!(timeout.state(), State::HighLoad);
    }

    #[test]
    fn the_best_case_is_that_of_the_best_interval_that_kept_the_target() {
        let mut timeout = fresh(short());
        answer(&mut timeout, milliseconds(1), milliseconds(1));
        for _ in 0..399 {
            answer(&mut timeout, milliseconds(7), milliseconds(2));
        }
        timeout.tick(milliseconds(5000));
        let known = timeout.estimate().clone();
        assert_eq!(known.min_ns, Some(1_000_000));
        assert_eq!(known.usual_ns, Some(6_985_000));
        while timeout.state() == State::Normal {
            answer(&mut timeout, milliseconds(49), milliseconds(5001));
        }
        assert_eq!(timeout.timeout(), microseconds_of(3 * 6985));
    }

    #[test]
    fn the_greatest_load_while_it_lasts_is_what_has_to_subside() {
        let (mut timeout, now) = overloaded();
        calls(&mut timeout, 1000, now);
        timeout.tick(now + milliseconds(5000));
        assert_eq!(timeout.estimate().high_load_rps, Some(200.0));
        calls(&mut timeout, 750, now + milliseconds(5000));
        timeout.tick(now + milliseconds(10_000));
        assert_eq!(timeout.state(), State::Normal);
    }

    #[test]
    fn neither_the_initial_timeout_nor_a_guess_from_one_sample_brings_it_about() {
        let mut timeout = fresh(short());
        for number in 0..50 {
            answer(&mut timeout, milliseconds(20), milliseconds(number));
            assert_eq!(timeout.state(), State::Normal);
        }
        assert_eq!(timeout.timeout(), milliseconds(21));
    }

    #[test]
    fn without_an_slo_or_a_max_there_is_none() {
        for config in [
            Config {
                slo: None,
                ..short()
            },
            Config::default(),
        ] {
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
    fn what_overload_taught_is_forgotten_when_it_ends() {
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
    fn after_total_failure_answers_are_heard_again() {
        let mut timeout = fresh(short());
        let mut now = Duration::ZERO;
        for number in 0..2000 {
            now = milliseconds(number * 10);
            answer(&mut timeout, milliseconds(5), now);
        }
        for _ in 0..10_000 {
            now += milliseconds(10);
            time_out(&mut timeout, now);
        }
        assert_eq!(timeout.timeout(), milliseconds(50), "as long as it may");
        for _ in 0..10_000 {
            now += milliseconds(10);
            let took = milliseconds(20);
            let given = timeout.begin(now);
            if took <= given {
                timeout.answered(took, now);
            } else {
                timeout.timed_out(given, now);
            }
        }
        assert_eq!(timeout.state(), State::Normal);
        assert_eq!(timeout.estimate().failure_rate, Some(0.0));
    }
}

mod properties {
    use super::*;

    /// What may happen to one call, and when the next one begins.
    #[derive(Debug, Clone)]
    enum Event {
        Begin,
        Answered(u64),
        TimedOut,
        TimedOutAfter(u64),
        Dropped,
        Tick,
    }

    fn configs() -> impl Strategy<Value = Config> {
        (
            proptest::option::of(1..100_000_u64),
            1..=100_u64,
            proptest::option::of(0.0001..0.5),
            1..100_u64,
            1..1000_u32,
        )
            .prop_map(|(max_us, share, slo, longer, k_margin)| {
                let longest_us = max_us.unwrap_or(60_000_000);
                Config {
                    max: max_us.map(microseconds_of),
                    min: microseconds_of(longest_us * share / 100),
                    slo,
                    interval: microseconds_of(longest_us + longer),
                    k_margin,
                    ..Config::default()
                }
            })
    }

    fn nanoseconds_of() -> impl Strategy<Value = Option<u64>> {
        proptest::option::of(prop_oneof![0..100_000_000_u64, any::<u64>()])
    }

    fn rates() -> impl Strategy<Value = Option<f64>> {
        proptest::option::of(prop_oneof![Just(0.0), 0.0..1.0, 0.0..1e9])
    }

    /// Whatever a row may say, also what no rule would have written.
    fn estimates() -> impl Strategy<Value = Estimate> {
        let times = (nanoseconds_of(), nanoseconds_of(), nanoseconds_of());
        let minima = (nanoseconds_of(), nanoseconds_of(), any::<u32>());
        let usual = (nanoseconds_of(), nanoseconds_of(), any::<u64>());
        let counts = (0..10_000_u64, 0..10_000_u64, 0..10_000_u64);
        let load = (rates(), rates(), rates(), any::<u32>());
        let margin = (
            any::<bool>(),
            prop_oneof![0..50_u32, any::<u32>()],
            any::<u64>(),
        );
        (times, minima, usual, counts, load, margin).prop_map(
            |(times, minima, usual, counts, load, margin)| Estimate {
                state: if margin.0 {
                    State::HighLoad
                } else {
                    State::Normal
                },
                srtt_ns: times.0,
                rttvar_ns: times.1,
                srto_ns: times.2,
                k_margin: margin.1,
                timeout_ns: margin.2,
                failure_rate: load.0.map(|rate| rate.min(1.0)),
                load_rps: load.1,
                min_ns: minima.0,
                min_before_ns: minima.1,
                usual_ns: usual.0,
                usual_before_ns: usual.1,
                min_age: minima.2,
                high_load_intervals: load.3,
                high_load_rps: load.2,
                interval_no: u64::from(minima.2),
                began_us: 0,
                requests: counts.0,
                responses: counts.1,
                failures: counts.2.min(counts.1),
                late: counts.2,
                sum_ns: usual.2,
            },
        )
    }

    fn events() -> impl Strategy<Value = Vec<(Event, u64)>> {
        let event = prop_oneof![
            4 => Just(Event::Begin),
            4 => prop_oneof![0..200_000_u64, any::<u64>()].prop_map(Event::Answered),
            2 => Just(Event::TimedOut),
            1 => any::<u64>().prop_map(Event::TimedOutAfter),
            1 => Just(Event::Dropped),
            1 => Just(Event::Tick),
        ];
        let pause_us = prop_oneof![8 => 0..1000_u64, 2 => 0..200_000_u64, 1 => 0..100_000_000_u64];
        proptest::collection::vec((event, pause_us), 0..400)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_timeout_is_within_its_bounds_and_the_margin_at_least_one(
            config in configs(),
            known in estimates(),
            events in events(),
        ) {
            let mut timeout = AdaptiveTimeout::resume(config.clone(), known, Duration::ZERO).unwrap();
            let mut now = Duration::ZERO;
            let longest = config.max.unwrap_or(Duration::from_secs(60));
            for (event, pause_us) in events {
                now += microseconds_of(pause_us);
                match event {
                    Event::Begin => {
                        let given = timeout.begin(now);
                        prop_assert!(config.min <= given && given <= longest, "{given:?}");
                    }
                    Event::Answered(us) => timeout.answered(microseconds_of(us), now),
                    Event::TimedOut => timeout.timed_out(timeout.timeout(), now),
                    Event::TimedOutAfter(us) => timeout.timed_out(microseconds_of(us), now),
                    Event::Dropped => timeout.dropped(now),
                    Event::Tick => timeout.tick(now),
                }
                let given = timeout.timeout();
                prop_assert!(config.min <= given && given <= longest, "{given:?} after {event:?}");
                let known = timeout.estimate();
                for rate in [known.failure_rate, known.load_rps, known.high_load_rps].into_iter().flatten() {
                    prop_assert!(rate.is_finite() && rate >= 0.0, "{known:?}");
                }
                prop_assert!(timeout.k_margin() >= 1);
            }
        }

        /// High load lasts twelve intervals and ends with a margin that fits. What a row says beforehand may bring it about
        /// once more, a healthy dependency never.
        #[test]
        fn from_any_state_a_healthy_dependency_is_normal_for_good_after_two_high_loads_at_most(
            known in estimates(),
            latency_us in 1000..20_000_u64,
            jitter_us in 0..500_u64,
            calls in 1..300_u64,
        ) {
            let config = Config { max: Some(milliseconds(50)), ..Config::default() };
            let mut timeout = AdaptiveTimeout::resume(config, known, Duration::ZERO).unwrap();
            let mut now = Duration::ZERO;
            let mut number = 0;
            let mut intervals_of_high_load = 0;
            for interval in 0..60 {
                for _ in 0..calls {
                    number += 1;
                    now += milliseconds(5000) / u32::try_from(calls).unwrap();
                    let took = microseconds_of(latency_us + (number * 7919) % (jitter_us + 1));
                    let given = timeout.begin(now);
                    if interval >= 45 {
                        prop_assert_eq!(timeout.state(), State::Normal);
                        prop_assert!(took <= given, "interval {}: {:?}", interval, timeout);
                    }
                    if took <= given {
                        timeout.answered(took, now);
                    } else {
                        timeout.timed_out(given, now);
                    }
                }
                intervals_of_high_load += u32::from(timeout.state() == State::HighLoad);
            }
            prop_assert!(intervals_of_high_load <= 28, "{} intervals", intervals_of_high_load);
        }
    }
}
