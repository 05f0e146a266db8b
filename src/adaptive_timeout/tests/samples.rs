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
    let mut timeout = fresh(Config { slo: None, ..config() });
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
