//! Hedges stay within their share; that each has a claim, and that one call of a claim settles, is checked with all sends.

use std::collections::HashMap;

use super::Check;
use crate::evidence::Evidence;

/// By kind: calls that were claimed, and sends beyond one for each claim, which only hedges make.
#[must_use]
pub fn hedges(evidence: &Evidence) -> HashMap<&str, (usize, usize)> {
    let mut sends = HashMap::<_, usize>::new();
    for seen in evidence.downstream.iter().filter(|seen| &*seen.event == "send") {
        *sends.entry(seen.id).or_default() += 1;
    }
    let repeats = evidence.repeats();
    let mut calls = HashMap::<_, (usize, usize)>::new();
    for (id, life) in &evidence.lives {
        if evidence.hedging.contains_key(&*life.kind) && life.send_id.is_none() {
            let repeats = repeats.get(id).into_iter().flatten().copied();
            let lives = std::iter::once(life).chain(repeats);
            let events = lives.flat_map(|life| &life.events);
            let claimed = events.filter(|event| &*event.cause == "claimed").count();
            let (all, hedges) = calls.entry(&*life.kind).or_default();
            *all += claimed;
            *hedges += sends.get(&Some(*id)).copied().unwrap_or_default().saturating_sub(claimed);
        }
    }
    calls
}

pub(super) fn check(evidence: &Evidence) -> Vec<Check> {
    let mut check = Check::of("hedges are no larger a share of the calls than their policy allows");
    for (kind, (all, hedges)) in hedges(evidence) {
        check.examined += hedges as u64;
        let (_, share) = evidence.hedging[kind];
        if hedges as f64 > all as f64 * share {
            check.violated(None, format!("{kind}: {hedges} hedges of {all} calls, the share is {share}"));
        }
    }
    vec![check]
}
