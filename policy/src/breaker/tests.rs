//! When a breaker opens, which calls it allows, and when it closes.

use std::sync::Barrier;

use proptest::prelude::*;

use super::*;
use crate::testing::milliseconds;

/// Opens for 5 s when half of at least four calls within 10 s failed or took longer than 100 ms; two probes.
fn policy() -> BreakerPolicy {
    BreakerPolicy {
        samples_min: 4,
        latency: Some(milliseconds(100)),
        probes: 2,
        ..BreakerPolicy::default()
    }
}

/// A breaker and a clock of its own.
struct Bench {
    breaker: Breaker,
    now: Instant,
}

impl Bench {
    fn new(policy: BreakerPolicy) -> Self {
        Self {
            breaker: Breaker::new(policy),
            now: Instant::now(),
        }
    }

    /// One that has just opened.
    fn open() -> Self {
        let bench = Self::new(policy());
        for _ in 0..4 {
            bench.call(CallEnd::Failed);
        }
        assert!(matches!(bench.state(), BreakerState::Open { .. }));
        bench
    }

    /// One that is half open from now on.
    fn half_open() -> Self {
        let mut bench = Self::open();
        bench.pass(5000);
        assert_eq!(bench.state(), BreakerState::HalfOpen);
        bench
    }

    /// The state that begins now with a failure.
    fn just_opened(&self) -> BreakerState {
        let until = self.now + milliseconds(5000);
        BreakerState::Open { until }
    }

    fn pass(&mut self, value: u64) {
        self.now += milliseconds(value);
    }

    fn state(&self) -> BreakerState {
        self.breaker.state(self.now)
    }

    fn acquire(&self) -> Result<Permit, Refused> {
        self.breaker.try_acquire(self.now)
    }

    fn end(&self, permit: Permit, end: CallEnd) {
        permit.record(self.now, end, milliseconds(1));
    }

    fn call(&self, end: CallEnd) {
        self.end(self.acquire().expect("it allows calls"), end);
    }

    fn slow_call(&self, latency: u64) {
        let permit = self.acquire().expect("it allows calls");
        permit.record(self.now, CallEnd::Answered, milliseconds(latency));
    }
}

#[test]
fn it_opens_at_its_error_rate_once_there_are_enough_calls() {
    let bench = Bench::new(policy());
    for _ in 0..3 {
        bench.call(CallEnd::Failed);
        assert_eq!(bench.state(), BreakerState::Closed, "too few to judge");
    }
    bench.call(CallEnd::Answered);
    assert_eq!(bench.state(), bench.just_opened());

    let bench = Bench::new(policy());
    for end in [[CallEnd::Answered; 3].as_slice(), &[CallEnd::Failed; 2]].concat() {
        bench.call(end);
    }
    assert_eq!(bench.state(), BreakerState::Closed, "two of five");
    bench.call(CallEnd::Failed);
    assert!(matches!(bench.state(), BreakerState::Open { .. }), "three of six");
}

#[test]
fn it_opens_when_half_of_the_calls_are_slow() {
    let bench = Bench::new(policy());
    for latency in [100, 101, 100, 101] {
        assert_eq!(bench.state(), BreakerState::Closed);
        bench.slow_call(latency);
    }
    assert!(matches!(bench.state(), BreakerState::Open { .. }));

    let latency = None;
    let without_latency = Bench::new(BreakerPolicy { latency, ..policy() });
    for _ in 0..100 {
        without_latency.slow_call(100_000);
    }
    assert_eq!(without_latency.state(), BreakerState::Closed);
}

#[test]
fn calls_leave_the_window() {
    let mut bench = Bench::new(policy());
    for _ in 0..3 {
        bench.call(CallEnd::Failed);
    }
    bench.pass(10_500);
    bench.call(CallEnd::Failed);
    assert_eq!(bench.state(), BreakerState::Closed, "the first three are forgotten");
    bench.pass(9999);
    for _ in 0..3 {
        bench.call(CallEnd::Failed);
    }
    assert!(matches!(bench.state(), BreakerState::Open { .. }), "the fourth is not");
}

#[test]
fn an_open_breaker_refuses_with_the_time_until_it_is_half_open() {
    let mut bench = Bench::open();
    bench.pass(1500);
    let refused = bench.acquire().unwrap_err();
    assert_eq!(refused.retry_after, milliseconds(3500));
    assert_eq!(Failure::retry_after(&refused), Some(milliseconds(3500)));
    assert_eq!(refused.to_string(), "the breaker is open; retry in 3.5s");
    bench.pass(3499);
    assert!(bench.acquire().is_err());
    bench.pass(1);
    assert!(bench.acquire().is_ok_and(|permit| permit.is_probe()));
}

#[test]
fn a_half_open_breaker_allows_its_probes_and_closes_when_all_have_succeeded() {
    let bench = Bench::half_open();
    let (one, other) = (bench.acquire().unwrap(), bench.acquire().unwrap());
    assert_eq!(bench.acquire().unwrap_err().retry_after, PROBES_UNDER_WAY);
    bench.end(one, CallEnd::Answered);
    assert!(bench.acquire().is_err(), "one that has succeeded keeps its place");
    assert_eq!(bench.state(), BreakerState::HalfOpen);
    bench.end(other, CallEnd::Answered);
    assert_eq!(bench.state(), BreakerState::Closed);
    assert!(!bench.acquire().unwrap().is_probe());
}

#[test]
fn a_probe_that_fails_or_is_slow_opens_it_again() {
    for (end, latency) in [(CallEnd::Failed, 1), (CallEnd::Answered, 101)] {
        let mut bench = Bench::half_open();
        let (one, other) = (bench.acquire().unwrap(), bench.acquire().unwrap());
        bench.end(one, CallEnd::Answered);
        bench.pass(20);
        other.record(bench.now, end, milliseconds(latency));
        assert_eq!(bench.state(), bench.just_opened());
    }
}

#[test]
fn a_probe_that_is_dropped_frees_its_place() {
    let bench = Bench::half_open();
    for _ in 0..10 {
        let (_one, _other) = (bench.acquire().unwrap(), bench.acquire().unwrap());
        assert!(bench.acquire().is_err());
    }
    let (one, other) = (bench.acquire().unwrap(), bench.acquire().unwrap());
    bench.end(one, CallEnd::Answered);
    drop(other);
    bench.call(CallEnd::Answered);
    assert_eq!(bench.state(), BreakerState::Closed);
}

#[test]
fn an_outcome_from_before_a_change_is_not_counted() {
    let mut bench = Bench::new(policy());
    let mut early = [(); 8].map(|()| bench.acquire().unwrap()).into_iter();
    for _ in 0..4 {
        bench.end(early.next().unwrap(), CallEnd::Failed);
    }
    let opened = bench.just_opened();
    bench.pass(100);
    bench.end(early.next().unwrap(), CallEnd::Failed);
    assert_eq!(bench.state(), opened, "the failure does not extend it");

    bench.pass(4900);
    let probe = bench.acquire().unwrap();
    bench.end(early.next().unwrap(), CallEnd::Answered);
    bench.end(early.next().unwrap(), CallEnd::Failed);
    drop(early.next());
    assert_eq!(bench.state(), BreakerState::HalfOpen, "neither counts as a probe");
    let other = bench.acquire().unwrap();
    assert!(bench.acquire().is_err(), "nor does its drop free a place");
    bench.end(probe, CallEnd::Answered);
    bench.end(other, CallEnd::Answered);
    assert_eq!(bench.state(), BreakerState::Closed);
}

#[test]
fn a_probe_of_an_earlier_half_open_time_does_not_count_in_the_next() {
    let mut bench = Bench::half_open();
    let (stale, failing) = (bench.acquire().unwrap(), bench.acquire().unwrap());
    bench.end(failing, CallEnd::Failed);
    bench.pass(5000);
    let (_one, _other) = (bench.acquire().unwrap(), bench.acquire().unwrap());
    drop(stale);
    assert!(bench.acquire().is_err());
}

#[test]
fn odd_policies_do_not_break_it() {
    let bench = Bench::new(BreakerPolicy {
        window: Duration::ZERO,
        samples_min: 0,
        error_rate: Some(0.0),
        latency: Some(Duration::MAX),
        open_for: Duration::MAX,
        probes: 0,
    });
    bench.call(CallEnd::Answered);
    assert_eq!(bench.state(), BreakerState::Closed);
    bench.call(CallEnd::Failed);
    assert!(matches!(bench.state(), BreakerState::Open { .. }));
    let unsure = Bench::new(BreakerPolicy {
        window: Duration::MAX,
        error_rate: Some(f64::NAN),
        ..policy()
    });
    for _ in 0..100 {
        unsure.call(CallEnd::Failed);
    }
    assert_eq!(unsure.state(), BreakerState::Closed);
}

#[test]
fn of_concurrent_calls_a_half_open_breaker_allows_as_many_as_it_has_probes() {
    const THREADS: usize = 8;
    let bench = Bench::half_open();
    let barrier = Barrier::new(THREADS);
    let permits: Vec<_> = std::thread::scope(|scope| {
        let asking: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    (0..100).filter_map(|_| bench.acquire().ok()).collect::<Vec<_>>()
                })
            })
            .collect();
        asking.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(permits.len(), 2);
}

#[derive(Debug, Clone)]
enum Step {
    Acquire,
    End(usize, bool, u64),
    Drop(usize),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => Just(Step::Acquire),
        4 => (0..8_usize, any::<bool>(), 0..150_u64).prop_map(|(which, failed, took)| Step::End(which, failed, took)),
        1 => (0..8_usize).prop_map(Step::Drop),
        1 => (0..6000_u64).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn probes_are_bounded_and_an_open_breaker_allows_no_call(steps in steps()) {
        let mut bench = Bench::new(policy());
        let mut running: Vec<(Permit, u32)> = Vec::new();
        let (mut before, mut half_opened) = (bench.state(), 0);
        for step in steps {
            match step {
                Step::Acquire => {
                    let state = bench.state();
                    match bench.acquire() {
                        Ok(permit) => {
                            let open = matches!(state, BreakerState::Open { .. });
                            prop_assert!(!open);
                            prop_assert_eq!(permit.is_probe(), state == BreakerState::HalfOpen);
                            running.push((permit, half_opened));
                        }
                        Err(_) => prop_assert_ne!(state, BreakerState::Closed),
                    }
                }
                Step::End(which, failed, took) if which < running.len() => {
                    let end = if failed { CallEnd::Failed } else { CallEnd::Answered };
                    running.swap_remove(which).0.record(bench.now, end, milliseconds(took));
                }
                Step::Drop(which) if which < running.len() => drop(running.swap_remove(which)),
                Step::Pass(time) => bench.pass(time),
                _ => {}
            }
            let state = bench.state();
            half_opened += u32::from(state == BreakerState::HalfOpen && before != BreakerState::HalfOpen);
            before = state;
            if state == BreakerState::HalfOpen {
                let probes = running
                    .iter()
                    .filter(|(permit, time)| permit.is_probe() && *time == half_opened)
                    .count();
                prop_assert!(probes <= 2, "{} probes", probes);
            }
        }
    }
}
