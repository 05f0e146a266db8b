//! When a breaker opens, which calls it allows, and when it closes.

use std::sync::Barrier;

use proptest::prelude::*;

use super::*;
use crate::testing::milliseconds;

/// Opens for 5 s when half of at least four calls within 10 s failed or took longer than 100 ms; two probes. The times
/// and the error rate are those of the default.
fn policy() -> BreakerPolicy {
    BreakerPolicy { samples_min: 4, latency: Some(milliseconds(100)), probes: 2, ..BreakerPolicy::default() }
}

/// A breaker and a clock that only [`advance`](Self::advance) moves.
struct Fixture {
    breaker: Breaker,
    now: Instant,
}

impl Fixture {
    fn new(policy: BreakerPolicy) -> Self {
        Self { breaker: Breaker::new(policy), now: Instant::now() }
    }

    /// One that has just opened.
    fn open() -> Self {
        let fixture = Self::new(policy());
        for _ in 0..4 {
            fixture.call(CallEnd::Failed);
        }
        assert!(matches!(fixture.state(), BreakerState::Open { .. }));
        fixture
    }

    /// One that is half open from now on.
    fn half_open() -> Self {
        let mut fixture = Self::open();
        fixture.advance(5000);
        assert_eq!(fixture.state(), BreakerState::HalfOpen);
        fixture
    }

    /// The state of a breaker that opens now.
    fn opened_now(&self) -> BreakerState {
        let until = self.now + milliseconds(5000);
        BreakerState::Open { until }
    }

    fn advance(&mut self, by_ms: u64) {
        self.now += milliseconds(by_ms);
    }

    fn state(&self) -> BreakerState {
        self.breaker.state(self.now)
    }

    fn acquire(&self) -> Result<Permit, Refused> {
        self.breaker.try_acquire(self.now)
    }

    /// Ends a call after 1 ms, which is not slow.
    fn end(&self, permit: Permit, end: CallEnd) {
        permit.record(self.now, end, milliseconds(1));
    }

    fn call(&self, end: CallEnd) {
        self.end(self.acquire().expect("it allows calls"), end);
    }

    fn answered_after(&self, latency_ms: u64) {
        let permit = self.acquire().expect("it allows calls");
        permit.record(self.now, CallEnd::Answered, milliseconds(latency_ms));
    }
}

#[test]
fn it_opens_at_its_error_rate_once_there_are_enough_calls() {
    let fixture = Fixture::new(policy());
    for _ in 0..3 {
        fixture.call(CallEnd::Failed);
        assert_eq!(fixture.state(), BreakerState::Closed, "too few to judge");
    }
    fixture.call(CallEnd::Answered);
    assert_eq!(fixture.state(), fixture.opened_now());

    let fixture = Fixture::new(policy());
    for end in [[CallEnd::Answered; 3].as_slice(), &[CallEnd::Failed; 2]].concat() {
        fixture.call(end);
    }
    assert_eq!(fixture.state(), BreakerState::Closed, "two of five");
    fixture.call(CallEnd::Failed);
    assert!(matches!(fixture.state(), BreakerState::Open { .. }), "three of six");
}

#[test]
fn it_opens_when_half_of_the_calls_are_slow() {
    let fixture = Fixture::new(policy());
    for latency in [100, 101, 100, 101] {
        assert_eq!(fixture.state(), BreakerState::Closed);
        fixture.answered_after(latency);
    }
    assert!(matches!(fixture.state(), BreakerState::Open { .. }));

    let without_latency = Fixture::new(BreakerPolicy { latency: None, ..policy() });
    for _ in 0..100 {
        without_latency.answered_after(100_000);
    }
    assert_eq!(without_latency.state(), BreakerState::Closed);
}

#[test]
fn calls_leave_the_window() {
    let mut fixture = Fixture::new(policy());
    for _ in 0..3 {
        fixture.call(CallEnd::Failed);
    }
    fixture.advance(10_500);
    fixture.call(CallEnd::Failed);
    assert_eq!(fixture.state(), BreakerState::Closed, "the first three have left");
    fixture.advance(9999);
    for _ in 0..3 {
        fixture.call(CallEnd::Failed);
    }
    assert!(matches!(fixture.state(), BreakerState::Open { .. }), "the fourth, 9999 ms old, has not");
}

#[test]
fn an_open_breaker_refuses_with_the_time_until_it_is_half_open() {
    let mut fixture = Fixture::open();
    fixture.advance(1500);
    let refused = fixture.acquire().unwrap_err();
    assert_eq!(refused.retry_after, milliseconds(3500));
    assert_eq!(Failure::retry_after(&refused), Some(milliseconds(3500)));
    assert_eq!(refused.to_string(), "the breaker is open; retry in 3.5s");
    fixture.advance(3499);
    assert!(fixture.acquire().is_err());
    fixture.advance(1);
    assert!(fixture.acquire().is_ok_and(|permit| permit.is_probe()));
}

#[test]
fn a_half_open_breaker_allows_its_probes_and_closes_when_all_have_succeeded() {
    let fixture = Fixture::half_open();
    let (one, other) = (fixture.acquire().unwrap(), fixture.acquire().unwrap());
    assert_eq!(fixture.acquire().unwrap_err().retry_after, PROBES_UNDER_WAY);
    fixture.end(one, CallEnd::Answered);
    assert!(fixture.acquire().is_err(), "one that has succeeded keeps its place");
    assert_eq!(fixture.state(), BreakerState::HalfOpen);
    fixture.end(other, CallEnd::Answered);
    assert_eq!(fixture.state(), BreakerState::Closed);
    assert!(!fixture.acquire().unwrap().is_probe());
}

#[test]
fn a_probe_that_fails_or_is_slow_opens_it_again() {
    for (end, latency) in [(CallEnd::Failed, 1), (CallEnd::Answered, 101)] {
        let mut fixture = Fixture::half_open();
        let (one, other) = (fixture.acquire().unwrap(), fixture.acquire().unwrap());
        fixture.end(one, CallEnd::Answered);
        fixture.advance(20);
        other.record(fixture.now, end, milliseconds(latency));
        assert_eq!(fixture.state(), fixture.opened_now());
    }
}

#[test]
fn a_probe_that_is_dropped_frees_its_place() {
    let fixture = Fixture::half_open();
    for _ in 0..10 {
        let (_one, _other) = (fixture.acquire().unwrap(), fixture.acquire().unwrap());
        assert!(fixture.acquire().is_err());
    }
    let (one, other) = (fixture.acquire().unwrap(), fixture.acquire().unwrap());
    fixture.end(one, CallEnd::Answered);
    drop(other);
    fixture.call(CallEnd::Answered);
    assert_eq!(fixture.state(), BreakerState::Closed);
}

#[test]
fn an_outcome_from_before_a_change_is_not_counted() {
    let mut fixture = Fixture::new(policy());
    let mut early = [(); 8].map(|()| fixture.acquire().unwrap()).into_iter();
    for _ in 0..4 {
        fixture.end(early.next().unwrap(), CallEnd::Failed);
    }
    let opened = fixture.opened_now();
    fixture.advance(100);
    fixture.end(early.next().unwrap(), CallEnd::Failed);
    assert_eq!(fixture.state(), opened, "the failure does not extend it");

    fixture.advance(4900);
    let probe = fixture.acquire().unwrap();
    fixture.end(early.next().unwrap(), CallEnd::Answered);
    fixture.end(early.next().unwrap(), CallEnd::Failed);
    drop(early.next());
    assert_eq!(fixture.state(), BreakerState::HalfOpen, "neither counts as a probe");
    let other = fixture.acquire().unwrap();
    assert!(fixture.acquire().is_err(), "nor does its drop free a place");
    fixture.end(probe, CallEnd::Answered);
    fixture.end(other, CallEnd::Answered);
    assert_eq!(fixture.state(), BreakerState::Closed);
}

#[test]
fn a_probe_from_before_the_breaker_opened_again_frees_no_place() {
    let mut fixture = Fixture::half_open();
    let (stale, failing) = (fixture.acquire().unwrap(), fixture.acquire().unwrap());
    fixture.end(failing, CallEnd::Failed);
    fixture.advance(5000);
    let (_one, _other) = (fixture.acquire().unwrap(), fixture.acquire().unwrap());
    drop(stale);
    assert!(fixture.acquire().is_err());
}

#[test]
fn zero_infinite_and_nan_thresholds_are_accepted() {
    // A rate of zero still needs a failure.
    let fixture = Fixture::new(BreakerPolicy {
        window: Duration::ZERO,
        samples_min: 0,
        error_rate: Some(0.0),
        latency: Some(Duration::MAX),
        open_for: Duration::MAX,
        probes: 0,
    });
    fixture.call(CallEnd::Answered);
    assert_eq!(fixture.state(), BreakerState::Closed);
    fixture.call(CallEnd::Failed);
    assert!(matches!(fixture.state(), BreakerState::Open { .. }));
    // No share of failures reaches NaN.
    let never_opens = Fixture::new(BreakerPolicy { window: Duration::MAX, error_rate: Some(f64::NAN), ..policy() });
    for _ in 0..100 {
        never_opens.call(CallEnd::Failed);
    }
    assert_eq!(never_opens.state(), BreakerState::Closed);
}

#[test]
fn concurrent_callers_of_a_half_open_breaker_get_as_many_permits_as_it_has_probes() {
    const THREADS: usize = 8;
    let fixture = Fixture::half_open();
    let barrier = Barrier::new(THREADS);
    let permits: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    (0..100).filter_map(|_| fixture.acquire().ok()).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(permits.len(), 2);
}

/// A number is that of a running call; one that is too large does nothing.
#[derive(Debug, Clone)]
enum Step {
    Acquire,
    /// The number, whether the call failed, and its latency in milliseconds.
    End(usize, bool, u64),
    Drop(usize),
    /// Milliseconds.
    Advance(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => Just(Step::Acquire),
        4 => (0..8_usize, any::<bool>(), 0..150_u64).prop_map(|(which, failed, ms)| Step::End(which, failed, ms)),
        1 => (0..8_usize).prop_map(Step::Drop),
        1 => (0..6000_u64).prop_map(Step::Advance),
    ];
    prop::collection::vec(step, 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn probes_are_bounded_and_an_open_breaker_allows_no_call(steps in steps()) {
        let mut fixture = Fixture::new(policy());
        // Each with the number of times that the breaker had become half open before.
        let mut running: Vec<(Permit, u32)> = Vec::new();
        let (mut before, mut times_half_open) = (fixture.state(), 0);
        for step in steps {
            match step {
                Step::Acquire => {
                    let state = fixture.state();
                    match fixture.acquire() {
                        Ok(permit) => {
                            let open = matches!(state, BreakerState::Open { .. });
                            prop_assert!(!open);
                            prop_assert_eq!(permit.is_probe(), state == BreakerState::HalfOpen);
                            running.push((permit, times_half_open));
                        }
                        Err(_) => prop_assert_ne!(state, BreakerState::Closed),
                    }
                }
                Step::End(which, failed, latency) if which < running.len() => {
                    let end = if failed { CallEnd::Failed } else { CallEnd::Answered };
                    running.swap_remove(which).0.record(fixture.now, end, milliseconds(latency));
                }
                Step::Drop(which) if which < running.len() => drop(running.swap_remove(which)),
                Step::Advance(by_ms) => fixture.advance(by_ms),
                _ => {}
            }
            let state = fixture.state();
            times_half_open += u32::from(state == BreakerState::HalfOpen && before != BreakerState::HalfOpen);
            before = state;
            if state == BreakerState::HalfOpen {
                let probes = running
                    .iter()
                    .filter(|(permit, given_at)| permit.is_probe() && *given_at == times_half_open)
                    .count();
                prop_assert!(probes <= 2, "{} probes", probes);
            }
        }
    }
}
