use super::*;

#[test]
fn before_any_sample_the_timeout_is_max_or_a_second_without_max() {
    assert_eq!(fresh(config()).timeout(), milliseconds(2000));
    assert_eq!(fresh(Config::default()).timeout(), milliseconds(1000));
}

#[test]
fn the_vectors_of_rfc_6298_are_exact() {
    let mut timeout = fresh(config());
    for (took, srtt_ns, rttvar_ns, timeout_ns) in [
        (100, 100_000_000, 50_000_000, 300_000_000),
        (200, 112_500_000, 62_500_000, 362_500_000),
        (150, 117_187_500, 56_250_000, 342_187_500),
    ] {
        answer(&mut timeout, milliseconds(took), milliseconds(took));
        assert_eq!(timeout.srtt(), Some(Duration::from_nanos(srtt_ns)));
        assert_eq!(timeout.rttvar(), Some(Duration::from_nanos(rttvar_ns)));
        assert_eq!(timeout.timeout(), Duration::from_nanos(timeout_ns));
    }
}

#[test]
fn the_margin_multiplies_the_deviation_from_the_second_sample_on() {
    let mut timeout = fresh_with(|config| config.k_margin = 3);
    answer(&mut timeout, milliseconds(100), milliseconds(100));
    assert_eq!(timeout.timeout(), milliseconds(300));
    answer(&mut timeout, milliseconds(200), milliseconds(300));
    assert_eq!(timeout.timeout(), microseconds_of(112_500 + 3 * 250_000));
}

#[test]
fn the_deviation_counts_as_a_millisecond_at_least() {
    let mut timeout = fresh(config());
    answer_each(&mut timeout, 199, milliseconds(20));
    assert_eq!(timeout.srtt(), Some(milliseconds(20)));
    assert_eq!(timeout.timeout(), milliseconds(21));
}

#[test]
fn the_timeout_is_kept_within_min_and_max() {
    let mut short = fresh_with(|config| config.min = milliseconds(40));
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
    let mut timeout = fresh_with(|config| config.slo = None);
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
    let mut timeout = fresh_with(|config| (config.slo, config.max) = (None, None));
    for expected in [2, 4, 8, 16, 32, 60, 60] {
        time_out(&mut timeout, milliseconds(1));
        assert_eq!(timeout.timeout(), Duration::from_secs(expected));
    }
}

#[test]
fn a_dropped_call_changes_only_the_calls_in_flight() {
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
