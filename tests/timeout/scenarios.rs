//! Does a learned timeout keep its promises on a server that load overruns and leaves again? In simulated time, with
//! the scenarios of `benches/adaptive_timeout.rs`, which has the figures.

#[path = "simulation/mod.rs"]
#[expect(dead_code, reason = "the benchmark uses the rest")]
mod simulation;

use std::time::Duration;

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
    let call = |arrives, service| Call {
        phase: 0,
        arrives: milliseconds(arrives),
        service: milliseconds(service),
    };
    let calls = [
        call(0, 8),
        call(1, 8),
        call(3, 1),
        call(20, 100),
        call(30, 5),
        call(200, 5),
    ];
    let took = |abandoned| {
        let run = run(&calls, 1, abandoned, &mut Fixed(milliseconds(12)));
        let calls = run.calls.iter();
        calls
            .map(|call| call.answered.then(|| call.took().as_millis()))
            .collect::<Vec<_>>()
    };
    // The second is cut off after 5 ms of work, the fourth after 12: then it is the next one's turn, if work is
    // dropped.
    assert_eq!(
        took(Abandoned::Dropped),
        [Some(8), None, Some(11), None, Some(7), Some(5)]
    );
    assert_eq!(took(Abandoned::Finished), [Some(8), None, None, None, None, Some(5)]);
}
