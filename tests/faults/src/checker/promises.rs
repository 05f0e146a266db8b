//! The promises and answers that callers got agree with the database.

use std::collections::{HashMap, HashSet};

use super::Check;
use crate::evidence::Evidence;

pub(super) fn check(evidence: &Evidence) -> Vec<Check> {
    let mut kept = Check::of("every request that was promised exists, with its own payload");
    for promise in &evidence.promises {
        kept.examine();
        match evidence.lives.get(&promise.id) {
            None => kept.violated(promise.id, format!("lost: {} was promised by {}", promise.mark, promise.way)),
            Some(life) if life.mark.as_deref() != Some(&*promise.mark) => {
                kept.violated(promise.id, format!("promised for {}, and it is {:?}", promise.mark, life.mark));
            }
            Some(life) if &*life.kind != promise.kind => {
                kept.violated(promise.id, format!("promised as {}, and it is {}", promise.kind, life.kind));
            }
            Some(_) => {}
        }
    }

    let mut told = Check::of("what callers were told of an end is what it was");
    for entry in &evidence.told {
        told.examine();
        let Some(life) = evidence.lives.get(&entry.id) else {
            told.violated(entry.id, format!("told {} of a request that is not there", entry.state));
            continue;
        };
        let holds = match &*entry.state {
            "unknown" => life.removed_us.is_some_and(|removed| removed <= entry.at_us),
            "cancelled" => life.events.last().is_some_and(|event| &*event.cause == "cancelled"),
            state => state == &*life.status,
        };
        // Who asked in time was told that it went on; only ends are written down.
        if !holds {
            told.violated(entry.id, format!("told {}, and it is {}", entry.state, life.status));
        }
    }

    let mut sent = Check::of("what the downstream answered and was taken is what the caller gets");
    let mut shares = HashMap::<_, usize>::new();
    let mut delivered = HashSet::new();
    for seen in &evidence.downstream {
        if let (Some(id), "delivered" | "delivered_early") = (seen.id, &*seen.event) {
            *shares.entry(id).or_default() += 1;
            if &*seen.event == "delivered" {
                delivered.insert(id);
            }
        }
    }
    let repeats = evidence.repeats();
    for (id, count) in shares {
        let Some(life) = evidence.lives.get(&id) else {
            continue;
        };
        // Or one that repeats it is answered.
        let repeats = repeats.get(&id).into_iter().flatten().copied();
        let threshold = evidence.thresholds.get(&*life.kind).copied().unwrap_or(1);
        // One that came early may find its request ended otherwise before the receipt was stored.
        if count < threshold || !delivered.contains(&id) {
            continue;
        }
        sent.examine();
        let answered = std::iter::once(life).chain(repeats).any(|life| {
            let last = life.events.last();
            last.is_some_and(|event| {
                matches!(&*event.cause, "response" | "threshold_reached" | "verdict_accepted" | "verdict_rejected")
            })
        });
        if !answered {
            sent.violated(id, format!("its response was taken, and it is {}", life.status));
        }
    }
    vec![kept, told, sent, given(evidence)]
}

/// An answer comes from the downstream: whatever completed a request, or rejected its proof, was on its way from there.
fn given(evidence: &Evidence) -> Check {
    let mut check = Check::of("no request has an answer that the downstream has not given");
    let mut answers = HashMap::<_, usize>::new();
    for seen in &evidence.downstream {
        // What was given up may have been taken all the same, and the word of it lost.
        if let (Some(id), "delivered" | "delivered_early" | "delivered_late" | "response_lost" | "receipt_found") =
            (seen.id, &*seen.event)
        {
            *answers.entry(id).or_default() += 1;
        }
    }
    for (id, life) in &evidence.lives {
        let Some(last) = life.events.last() else {
            continue;
        };
        let needed = match &*last.cause {
            "response" | "verdict_accepted" | "verdict_rejected" => 1,
            "threshold_reached" => evidence.thresholds.get(&*life.kind).copied().unwrap_or(1),
            _ => continue,
        };
        check.examine();
        let given = answers.get(&evidence.send_id(*id)).copied().unwrap_or_default();
        if given < needed {
            check.violated(*id, format!("it ended by {}, and {given} of {needed} answers were given", last.cause));
        }
    }
    check
}
