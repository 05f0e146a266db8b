//! Does a learned timeout keep its promises on a server that load overruns and leaves again? In simulated time, with
//! the scenarios of `benches/adaptive_timeout.rs`, which has the figures.

#[path = "simulation/mod.rs"]
#[expect(dead_code, reason = "the benchmark uses the rest")]
mod simulation;

use std::{ops::Range, time::Duration};

use rand::{Rng, SeedableRng, rngs::StdRng};
use rand_distr::{Distribution, LogNormal};

use crate::support::campaign;

use self::simulation::{
    LONGEST, MIN, checks,
    estimator::{Fixed, Ours, Rfc6298},
    scenario::{self, Call, Scenario},
    server::{Abandoned, run},
};

/// Not the seed of the benchmark.
const SEED: u64 = 100;

fn keeps_its_promises(scenario: &Scenario) {
    let mut broken = Vec::new();
    for seed in SEED..SEED + campaign(1, 3) {
        for max in LONGEST {
            broken.extend(checks::broken(scenario, seed, max, &mut Ours::new(max)));
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn load_that_comes_and_goes_is_seen_and_left_and_costs_few_answers() {
    keeps_its_promises(&scenario::surge(scenario::SERVERS));
}

#[test]
fn a_start_in_overload_is_seen_and_calls_do_not_pile_up() {
    keeps_its_promises(&scenario::overload(scenario::FEW_SERVERS));
}

#[test]
fn other_timeouts_break_the_promises() {
    let scenario = scenario::surge(scenario::SERVERS);
    let max = LONGEST[0];
    let broken = |estimator: &mut dyn simulation::estimator::Estimator| {
        checks::broken(&scenario, SEED, max, estimator).join("\n")
    };

    let longest = broken(&mut Fixed(max));
    assert!(longest.contains("high load in B seen after None"), "{longest}");
    assert!(longest.contains("calls under way in B, more than"), "{longest}");
    let shortest = broken(&mut Fixed(max / 5));
    assert!(shortest.contains("% fail in A"), "{shortest}");
    assert!(shortest.contains("answers/s in B, a fixed timeout"), "{shortest}");
    let plain = broken(&mut Rfc6298::new(MIN, max));
    assert!(plain.contains("% fail in A again"), "{plain}");
}

#[test]
fn as_the_source_has_it_high_load_begins_without_overload() {
    let scenario = scenario::surge(scenario::SERVERS);
    let max = LONGEST[0];
    let broken = checks::broken(&scenario, SEED, max, &mut Ours::as_the_source(max)).join("\n");
    assert!(broken.contains("high load Some("), "{broken}");
}

#[test]
fn the_simulated_server_serves_in_order_and_drops_abandoned_calls() {
    let milliseconds = Duration::from_millis;
    let call = |arrives, service| Call { phase: 0, arrives: milliseconds(arrives), service: milliseconds(service) };
    let calls = [call(0, 8), call(1, 8), call(3, 1), call(20, 100), call(30, 5), call(200, 5)];
    let took = |abandoned| {
        let run = run(&calls, 1, abandoned, &mut Fixed(milliseconds(12)));
        let calls = run.calls.iter();
        calls.map(|call| call.answered.then(|| call.took().as_millis())).collect::<Vec<_>>()
    };
    // The second is cut off after 5 ms of work, the fourth after 12: then it is the next one's turn, if work is
    // dropped.
    assert_eq!(took(Abandoned::Dropped), [Some(8), None, Some(11), None, Some(7), Some(5)]);
    assert_eq!(took(Abandoned::Finished), [Some(8), None, None, None, None, Some(5)]);
}

/// Ours must not go on cutting off calls that the longest timeout would not cut off: the share of the calls of these
/// seconds that time out, with calls from second 0 on. The dependency's answers take
/// `latency(second, random)` milliseconds, however many calls there are.
fn failed(calls_per_second: u32, seconds: Range<u32>, latency: impl Fn(u64, &mut StdRng) -> f64) -> f64 {
    let mut random = StdRng::seed_from_u64(1);
    let pause = Duration::from_secs(1) / calls_per_second;
    let calls = (1..=seconds.end * calls_per_second).map(|number| {
        let arrives = pause * number;
        let ms = latency(arrives.as_secs(), &mut random);
        Call { phase: 0, arrives, service: Duration::from_secs_f64(ms.min(1e6) / 1000.0) }
    });
    let calls: Vec<_> = calls.collect();
    let max = Duration::from_secs(2);
    let run = run(&calls, usize::MAX, Abandoned::Dropped, &mut Ours::new(max));
    let judged = &run.calls[(seconds.start * calls_per_second) as usize..];
    let failures = judged.iter().filter(|call| !call.answered).count();
    failures as f64 / judged.len() as f64
}

fn log_normal(median: f64, spread: f64, random: &mut StdRng) -> f64 {
    LogNormal::new(median.ln(), spread).unwrap().sample(random)
}

#[test]
fn a_share_of_calls_that_never_answer_does_not_cut_off_the_others() {
    for share in [0.01, 0.03, 0.1] {
        let latency = |_, random: &mut StdRng| {
            let answered = log_normal(20.0, 0.5, random);
            if random.random_bool(share) { f64::INFINITY } else { answered }
        };
        let failed = failed(100, 0..campaign(600, 1800), latency);
        assert!(failed < share + 0.01, "{share}: {failed}");
    }
}

#[test]
fn a_slow_spell_is_over_when_it_is_over_whatever_the_load() {
    let many = campaign(2_000, 20_000);
    for (calls_per_second, slower, end) in [(100, 10.0, 600), (many, 10.0, 100), (many, 100.0, 100)] {
        let latency = |second, random: &mut StdRng| {
            let is_slow = (60..80).contains(&second);
            log_normal(if is_slow { 20.0 * slower } else { 20.0 }, 1.0, random)
        };
        let failed = failed(calls_per_second, end - 10..end, latency);
        assert!(failed < 0.03, "{calls_per_second} a second, {slower} times slower: {failed}");
    }
}

#[test]
fn a_dependency_that_becomes_slow_permanently_is_waited_for_within_max() {
    let median = |second| if second < 120 { 10.0 } else { 1000.0 };
    let failed = failed(100, 300..900, |second, random| log_normal(median(second), 0.3, random));
    assert!(failed < 0.03, "{failed}; 1 % takes longer than max");
}
