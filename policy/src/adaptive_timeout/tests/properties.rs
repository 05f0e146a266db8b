use proptest::prelude::*;

use super::*;

/// An event of one call, and the pause before the next one.
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
        (prop_oneof![Just(1), Just(32), 1..100_u32], any::<bool>(), proptest::option::of(1..100_u32)),
    )
        .prop_map(|(max_us, share, slo, longer, k_margin, (alarm_samples, is_minimum, interval_calls))| {
            let longest_us = max_us.unwrap_or(60_000_000);
            Config {
                max: max_us.map(microseconds_of),
                min: microseconds_of(longest_us * share / 100),
                slo,
                interval: microseconds_of(longest_us + longer),
                k_margin,
                alarm_samples,
                best_case: if is_minimum { BestCase::Minimum } else { BestCase::Usual },
                interval_calls,
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

/// Any values of a row, also those that no rule writes.
fn estimates() -> impl Strategy<Value = Estimate> {
    let times = (nanoseconds_of(), nanoseconds_of(), nanoseconds_of());
    let minima = (nanoseconds_of(), nanoseconds_of(), any::<u32>());
    let usual = (nanoseconds_of(), nanoseconds_of(), any::<u64>());
    let counts = (0..10_000_u64, 0..10_000_u64, 0..10_000_u64);
    let load = (rates(), rates(), rates(), any::<u32>());
    let margin = (any::<bool>(), prop_oneof![0..50_u32, any::<u32>()], any::<u64>());
    (times, minima, usual, counts, load, margin).prop_map(|(times, minima, usual, counts, load, margin)| Estimate {
        state: if margin.0 { State::HighLoad } else { State::Normal },
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
    })
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
    #![proptest_config(ProptestConfig { cases: if std::env::var("TIDEGATE_TESTS").is_ok_and(|asked| asked == "long") { 500 } else { 100 }, failure_persistence: None, ..ProptestConfig::default() })]

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

    /// High load lasts twelve intervals and ends with a margin that fits. The values of the row may begin it
    /// once more, a healthy dependency never.
    #[test]
    fn from_any_state_a_healthy_dependency_is_normal_after_two_high_loads_at_most(
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
                timeout.tick(now);
                let state = timeout.state();
                let given = call(&mut timeout, took, now);
                if interval >= 45 {
                    prop_assert_eq!(state, State::Normal);
                    prop_assert!(took <= given, "interval {}: {:?}", interval, timeout);
                }
            }
            intervals_of_high_load += u32::from(timeout.state() == State::HighLoad);
        }
        prop_assert!(intervals_of_high_load <= 28, "{} intervals", intervals_of_high_load);
    }
}
