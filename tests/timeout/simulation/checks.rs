//! What must hold of a learned timeout, whatever the seed.

use std::time::Duration;

use super::{
    INTERVAL, SLO,
    estimator::{Estimator, Fixed, fixed},
    measured::span,
    scenario::{Call, Scenario},
    server::{Abandoned, Run, run},
};

/// How much less than with the best of the fixed timeouts is answered, at most.
const GOODPUT_LOST: f64 = 0.05;

/// How long overload may last until it is taken for high load.
const SEEN_WITHIN: Duration = Duration::from_secs(1);

/// How long high load may last when the overload has gone: the rest of the interval in which it ended, and the next.
const LEFT_WITHIN: Duration = Duration::from_secs(2 * INTERVAL.as_secs());

/// How many times as many calls are under way in the last third of an overload as in the first. It is not 1: an
/// interval that probes with the normal timeout falls into one of them.
const GROWTH: f64 = 1.4;

/// No more calls are under way than come in this time, half of the shorter `max`.
const LONGEST: Duration = Duration::from_millis(25);

/// What does not hold of an estimator for a seed, in words; nothing when all is well.
pub fn broken(scenario: &Scenario, seed: u64, max: Duration, estimator: &mut dyn Estimator) -> Vec<String> {
    let calls = scenario.calls(seed);
    let run = |estimator: &mut dyn Estimator| run(&calls, scenario.servers, Abandoned::Dropped, estimator);
    let run_of_it = run(estimator);
    let fixed = fixed(max).map(|timeout| run(&mut Fixed(timeout)));
    broken_in(scenario, &calls, &run_of_it, &fixed)
        .into_iter()
        .map(|what| format!("{}, seed {seed}, max {max:?}: {what}", scenario.name))
        .collect()
}

fn broken_in(scenario: &Scenario, calls: &[Call], ours: &Run, fixed: &[Run]) -> Vec<String> {
    let mut broken = Vec::new();
    let mut hold = |holds: bool, what: String| {
        if !holds {
            broken.push(what);
        }
    };
    for (number, phase) in scenario.phases.iter().enumerate() {
        let (from, to) = span(calls, number);
        let best = fixed.iter().map(|run| run.goodput((from, to))).fold(0.0, f64::max);
        let goodput = ours.goodput((from, to));
        hold(
            goodput >= best * (1.0 - GOODPUT_LOST),
            format!("{goodput:.0} answers/s in {}, a fixed timeout {best:.0}", phase.name),
        );
        if !phase.overloads {
            let failure_rate = ours.failure_rate((from, to));
            hold(failure_rate <= SLO, format!("{:.2} % fail in {}", failure_rate * 100.0, phase.name));
            continue;
        }

        let seen = ours.high_load.iter().find(|(_, left)| *left > from);
        let seen = seen.map(|(since, _)| since.saturating_sub(from));
        hold(seen.is_some_and(|seen| seen <= SEEN_WITHIN), format!("high load in {} seen after {seen:?}", phase.name));
        let without_cause = ours.high_load.iter().find(|(since, left)| *since < from || *left > to + LEFT_WITHIN);
        hold(without_cause.is_none(), format!("high load {without_cause:?}, overload from {from:?} to {to:?}"));

        let third = (to - from) / 3;
        let first = ours.mean_in_flight((from, from + third));
        let last = ours.mean_in_flight((to - third, to));
        hold(last <= first * GROWTH, format!("calls under way grow from {first:.1} to {last:.1} in {}", phase.name));
        let bound = phase.rate * LONGEST.as_secs_f64();
        hold(last <= bound, format!("{last:.1} calls under way in {}, more than {bound:.1}", phase.name));
    }
    broken
}
