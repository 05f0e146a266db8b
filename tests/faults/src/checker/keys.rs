//! An idempotency key stands for one request at a time, and goes on standing for it; without one, a submission is one
//! request.

use std::collections::{BTreeMap, HashMap, HashSet};

use uuid::Uuid;

use super::{Check, executions::Denied, lives::ENDS, redrive};
use crate::evidence::{Evidence, Life};

/// A key is stored, and its request made, within this time, in microseconds.
pub(super) const SUBMISSION_US: i64 = 1_000_000;

/// How long a redrive that has made a copy may take to commit: until then the key of the original is free.
const REDRIVE_US: i64 = 10_000_000;

pub(super) fn check(evidence: &Evidence) -> Vec<Check> {
    let mut check = Check::of("no idempotency key is lost: the same key is the same request");
    let originals = redrive::originals(evidence);
    let denied = Denied::of(evidence);
    let held: HashSet<_> = evidence.keyed.iter().map(|id| target_of(evidence, *id)).collect();
    let keyed: HashSet<&str> =
        evidence.promises.iter().filter(|promise| promise.keyed).map(|promise| &*promise.mark).collect();
    let mut by_mark = BTreeMap::<(&str, &str), Vec<(&Uuid, &Life)>>::new();
    for promise in evidence.promises.iter().filter(|promise| promise.keyed) {
        // An end without an execution frees its key, and so does the end of its window.
        if let Some(life) = evidence.lives.get(&promise.id)
            && (&*life.status == "completed" || !is_freed(evidence, &denied, promise.id, life, i64::MAX))
            && !evidence.redriven.contains_key(&promise.id)
            && !evidence.windows_us.contains_key(&*life.kind)
            && !held.contains(&promise.id)
        {
            check.violated(promise.id, format!("the key of {} stands for it no more", promise.mark));
        }
    }
    for (id, life) in &evidence.lives {
        if let Some(mark) = life.mark.as_deref()
            && keyed.contains(mark)
        {
            by_mark.entry((&life.kind, mark)).or_default().push((id, life));
        }
    }
    for ((_, mark), mut lives) in by_mark {
        check.examine();
        lives.sort_by_key(|(_, life)| life.began_us());
        let mut lives = lives.into_iter();
        let Some(mut holder) = lives.next() else {
            continue;
        };
        for next in lives {
            if let Some(original) = originals.get(next.0) {
                // The copy has the key, unless a caller has used it again in between.
                if original == holder.0 {
                    holder = next;
                }
                continue;
            }
            let is_copy = originals.contains_key(holder.0);
            if !is_free(evidence, &denied, holder, is_copy, next.1) {
                check.violated(
                    *next.0,
                    format!("{mark} is a second request, though the first ({}) is {}", holder.0, holder.1.status),
                );
            }
            holder = next;
        }
    }
    vec![check, once(evidence, &originals)]
}

/// The request that a key stands for: the one that it is stored with, or what that was redriven as.
fn target_of(evidence: &Evidence, id: Uuid) -> Uuid {
    let mut id = id;
    while let Some(copy) = evidence.redriven.get(&id) {
        id = *copy;
    }
    id
}

/// Whether a holder had lost its key when the next request began: it had ended without an execution, its window was over,
/// or it was a copy that had not been committed.
fn is_free(evidence: &Evidence, denied: &Denied, holder: (&Uuid, &Life), is_copy: bool, next: &Life) -> bool {
    let (id, holder) = holder;
    let (Some(from_us), Some(began_us)) = (holder.began_us(), next.began_us()) else {
        return false;
    };
    let window_us = evidence.windows_us.get(&*holder.kind).copied();
    is_freed(evidence, denied, *id, holder, began_us)
        || window_us.is_some_and(|window| holder.is_over(window, began_us))
        || (is_copy && began_us <= from_us + REDRIVE_US)
}

/// Whether a request had ended at a time in a way that frees its key: nothing was executed, or it may be repeated.
fn is_freed(evidence: &Evidence, denied: &Denied, id: Uuid, life: &Life, at_us: i64) -> bool {
    let ended = life.events.iter().find(|event| ENDS.contains(&&*event.to));
    ended.is_some_and(|ended| &*ended.to != "completed" && ended.at_us <= at_us)
        && (evidence.repeatable.contains(&*life.kind) || denied.was_not_executed(id, life, at_us))
}

/// A submission without a key that was promised a request has made one, and not another besides; it may have copies.
fn once(evidence: &Evidence, originals: &HashMap<Uuid, Uuid>) -> Check {
    let mut check = Check::of("one submission without a key makes one request");
    let mut made = HashMap::<&str, Vec<&Uuid>>::new();
    for (id, life) in &evidence.lives {
        if let Some(mark) = life.mark.as_deref() {
            made.entry(mark).or_default().push(id);
        }
    }
    for promise in evidence.promises.iter().filter(|promise| !promise.keyed) {
        check.examine();
        for other in made.get(&*promise.mark).into_iter().flatten() {
            let mut first = *other;
            while let Some(original) = originals.get(first) {
                first = original;
            }
            if *first != promise.id {
                check.violated(**other, format!("{} was promised as {}, and is there again", promise.mark, promise.id));
            }
        }
    }
    check
}
