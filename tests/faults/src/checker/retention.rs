//! Retention deletes what has ended, in time, and nothing else.

use super::{Check, lives::ENDS};
use crate::evidence::{Evidence, day_of};

/// How long after its retention a request may be there when all is at rest, in microseconds.
const LATE_US: i64 = 30_000_000;

pub(super) fn check(evidence: &Evidence) -> Vec<Check> {
    let mut early = Check::of("only requests that have ended are deleted, after their retention");
    let mut late = Check::of("a request is deleted when its retention is over");
    for (id, life) in &evidence.lives {
        let due_us = evidence.retentions_us.get(&*life.kind).and_then(|retention| Some(life.finished_us? + retention));
        if let Some(due_us) = due_us {
            late.examine();
            if life.removed_us.is_none() && due_us + LATE_US < evidence.read_us {
                late.violated(*id, format!("it is there {} us after that", evidence.read_us - due_us));
            }
        }
        let Some(removed_us) = life.removed_us else {
            continue;
        };
        early.examine();
        if !ENDS.contains(&&*life.status) {
            early.violated(*id, format!("it was deleted and is {}", life.status));
        } else if due_us.is_none_or(|due_us| removed_us < due_us) {
            early.violated(*id, format!("it was deleted at {removed_us}, and may be at {due_us:?} at the earliest"));
        }
    }

    let mut gone = Check::of("a request that is deleted leaves no history");
    for (id, _) in evidence.lives.iter().filter(|(_, life)| life.removed_us.is_some()) {
        gone.examine();
        if evidence.histories_left.contains(id) {
            gone.violated(*id, "some of its history is there");
        }
    }

    let mut days = Check::of("the partition of a day goes with its last request, and not before");
    for day in &evidence.old_days {
        days.examine();
        let left = evidence.lives.iter().filter(|(id, life)| life.removed_us.is_none() && day_of(**id) == *day).count();
        let is_there = evidence.days.contains(day);
        if is_there != (left > 0) {
            let there = if is_there { "is there" } else { "was dropped" };
            days.violated(None, format!("the partition of {day} {there}, with {left} requests"));
        }
    }
    vec![early, late, gone, days]
}
