//! Walks through the states of a model, for all four models.
//!
//! `TIDEGATE_MODEL` says how much may go wrong on each path: `small` (by default), `usual` (by default in long test runs), or
//! `large`: minutes, and some gigabytes.

use std::{collections::BTreeSet, env, fmt::Debug, hash::Hash, time::Instant};

use stateright::{Checker, HasDiscoveries, Model};

/// What may happen in a scene, by how much is asked for.
pub(crate) fn bounds<T>(small: T, usual: T, large: T) -> T {
    let asked = |variable| env::var(variable).unwrap_or_default();
    match (asked("TIDEGATE_MODEL").as_str(), asked("TIDEGATE_TESTS").as_str()) {
        ("large", _) => large,
        ("usual", _) | ("", "long") => usual,
        ("small" | "", _) => small,
        (other, _) => panic!("TIDEGATE_MODEL is small, usual or large, not {other}"),
    }
}

/// Holds every property against every state.
pub(crate) fn every_state<M>(what: &str, scene: M)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq,
{
    let began = Instant::now();
    let checker = scene.checker().spawn_dfs().join();
    println!(
        "{what}: {} states, {} steps, the longest path {}, in {:.1?}",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth(),
        began.elapsed(),
    );
    checker.assert_properties();
}

/// Expects a property to be violated; prints a way to that.
pub(crate) fn finds<M>(what: &str, scene: M, property: &'static str)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq,
{
    let began = Instant::now();
    let checker = scene.checker().finish_when(HasDiscoveries::AllOf(BTreeSet::from([property]))).spawn_bfs().join();
    let (states, took) = (checker.unique_state_count(), began.elapsed());
    let steps = checker.assert_any_discovery(property).into_actions();
    println!(
        "{what}: not \"{property}\" after {} steps, found among {states} states in {took:.1?}: {steps:?}",
        steps.len()
    );
}
