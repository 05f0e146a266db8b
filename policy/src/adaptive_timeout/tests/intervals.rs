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
        let report = Report { late, ..seen(2000, 1) };
        assert_eq!(closed(known(6), &report).k_margin, after, "{late} late answers");
    }
}

#[test]
fn answers_are_late_that_the_narrower_margin_would_have_cut_off() {
    let mut known = fresh_with(|config| config.k_margin = 6);
    answer_each(&mut known, 300, milliseconds(10));
    // 10 ms + 6 · 1 ms; narrowed by (16 + 10) / 32 to 4. Three of 453 are more than half of the target.
    assert_eq!(known.timeout(), milliseconds(16));
    for (took, k_margin) in [(14, 4), (15, 6)] {
        let mut timeout = known.clone();
        for number in 1..=3 {
            answer(&mut timeout, milliseconds(took), milliseconds(number * 1000));
            answer_all(&mut timeout, 50, milliseconds(10), milliseconds(number * 1000));
        }
        timeout.tick(milliseconds(5000));
        assert_eq!(timeout.k_margin(), k_margin, "{took} ms");
    }
}

#[test]
fn an_interval_with_too_few_samples_judges_nothing_and_is_closed_all_the_same() {
    for report in [seen(199, 0), seen(199, 199), seen(0, 0)] {
        let known = closed(known(7), &report);
        assert_eq!(known.k_margin, 7);
        assert_eq!(known.failure_rate, None);
        assert_eq!((known.interval_no, known.requests), (1, 0));
        assert_eq!(known.began_us, 5_000_000);
        assert_eq!(known.load_rps, Some(report.load_rps));
    }
}

#[test]
fn samples_are_gathered_until_they_are_enough() {
    let mut known = closed(known(3), &seen(150, 0));
    assert_eq!((known.responses, known.failure_rate), (150, None));
    known.fold(&config(), &seen(49, 49), 0.0, 10_000_000);
    assert_eq!((known.responses, known.failure_rate), (199, None));
    known.fold(&config(), &seen(1, 1), 0.0, 15_000_000);
    assert_eq!(known.failure_rate, Some(0.25));
    assert_eq!((known.k_margin, known.responses, known.failures), (4, 0, 0));
}

#[test]
fn an_interval_lasts_until_its_time_is_over_or_ten_times_enough_samples_have_come() {
    let mut open = known(3);
    open.fold(&config(), &seen(300, 0), 0.0, 4_999_999);
    assert_eq!((open.interval_no, open.responses, open.k_margin), (0, 300, 3));
    open.fold(&config(), &seen(1699, 0), 0.0, 4_999_999);
    assert_eq!((open.interval_no, open.responses), (0, 1999));
    open.fold(&config(), &seen(1, 0), 0.0, 4_999_999);
    assert_eq!((open.interval_no, open.responses, open.k_margin), (1, 0, 2));
}

#[test]
fn as_the_source_has_it_an_interval_ends_and_is_judged_after_fifty_calls_but_not_before_max() {
    let config = Config { interval_calls: Some(50), ..config() };
    let mut open = known(3);
    open.fold(&config, &seen(49, 1), 0.0, 2_000_000);
    assert_eq!((open.interval_no, open.k_margin), (0, 3));
    let mut early = open.clone();
    early.fold(&config, &seen(1, 0), 0.0, 1_999_999);
    assert_eq!((early.interval_no, early.k_margin), (0, 3), "max is two seconds");
    open.fold(&config, &seen(1, 0), 0.0, 2_000_000);
    assert_eq!((open.interval_no, open.failure_rate), (1, Some(0.02)));
    assert_eq!((open.k_margin, open.responses), (4, 0));

    // One that ends by time has to be as large, or as large as the target needs.
    for (interval_calls, calls, failure_rate) in [(50, 49, None), (50, 50, Some(0.0)), (5000, 200, Some(0.0))] {
        let config = Config { interval_calls: Some(interval_calls), ..config.clone() };
        let mut open = known(3);
        open.fold(&config, &seen(calls, 0), 0.0, 5_000_000);
        assert_eq!((open.interval_no, open.failure_rate), (1, failure_rate), "{calls} calls");
    }

    // A process reports as soon as it has that many.
    let mut timeout = Estimator::new(config, known(3), 0, Duration::ZERO).unwrap();
    for number in 1..=50 {
        assert!(!timeout.is_early(milliseconds(2000)), "{number}");
        timeout.begin();
        timeout.answered(milliseconds(10));
    }
    assert!(timeout.is_early(milliseconds(2000)) && !timeout.is_early(milliseconds(1999)));
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
    let mut known = known(3);
    known.began_us = 3_600_000_000;
    known.fold(&config(), &seen(300, 0), 0.0, 1_000_000);
    assert_eq!((known.interval_no, known.began_us), (0, 1_000_000));
    known.fold(&config(), &seen(0, 0), 0.0, 6_000_000);
    assert_eq!(known.interval_no, 1);
}

#[test]
fn reports_of_several_processes_add_up_weighed_by_their_samples() {
    let mut known = known(3);
    known.fold(&config(), &seen(100, 0), 0.0, 1_000_000);
    let slower =
        Report { smoothed_ns: Some([22_000_000, 4_000_000, 60_000_000]), min_ns: Some(4_000_000), ..seen(50, 5) };
    known.fold(&config(), &slower, 20.0, 2_000_000);
    assert_eq!((known.responses, known.failures), (150, 5));
    assert_eq!(known.srtt_ns, Some(14_000_000));
    assert_eq!(known.rttvar_ns, Some(2_000_000));
    assert_eq!(known.srto_ns, Some(40_000_000));
    assert_eq!(known.min_ns, Some(4_000_000));
    assert_eq!(known.timeout_ns, 14_000_000 + 3 * 8_000_000);
    known.fold(&config(), &seen(0, 0), 30.0, 5_000_000);
    assert_eq!(known.load_rps, Some(30.0), "the sum of the latest reports");
}

#[test]
fn while_too_many_calls_fail_one_that_times_out_asks_for_the_best_case() {
    let mut timeout = fresh(config());
    answer_each(&mut timeout, 300, milliseconds(10));
    for _ in 0..10 {
        time_out(&mut timeout, milliseconds(400));
    }
    timeout.tick(milliseconds(5000));
    assert!(timeout.estimate().failure_rate.is_some_and(|rate| rate >= 0.005));
    answer_all(&mut timeout, 20, milliseconds(100), milliseconds(5001));
    assert!(timeout.timeout() > milliseconds(100));
    time_out(&mut timeout, milliseconds(5100));
    let usual = Duration::from_nanos(timeout.estimate().usual_ns.unwrap());
    assert_eq!(timeout.timeout(), 3 * usual, "three times the mean of the interval");
    assert!(timeout.timeout() < milliseconds(35));

    answer_all(&mut timeout, 200, milliseconds(10), milliseconds(5200));
    let shorter = timeout.timeout();
    assert!(shorter < milliseconds(30));
    time_out(&mut timeout, milliseconds(5300));
    assert_eq!(timeout.timeout(), shorter, "never a longer one");
}

#[test]
fn when_nothing_at_all_answers_the_minimum_is_forgotten() {
    let mut timeout = fresh(config());
    answer_each(&mut timeout, 300, milliseconds(10));
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
    let mut report = seen(300, 0);
    let mut minima = Vec::new();
    for interval in 1..=13_u64 {
        report.min_ns = Some(if interval == 1 { 1_000_000 } else { 8_000_000 });
        known.fold(&config(), &report, 0.0, interval * 5_000_000);
        minima.push(known.min_rtt_ns(None).unwrap() / 1_000_000);
    }
    assert_eq!(minima, [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 8, 8]);
}
