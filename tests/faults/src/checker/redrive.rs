//! A failed request is redriven once at most, as a request like it.

use std::collections::HashMap;

use uuid::Uuid;

use super::{Check, executions::Denied};
use crate::evidence::{Evidence, Life};

/// Each copy with the request that it is a copy of.
pub(super) fn originals(evidence: &Evidence) -> HashMap<Uuid, Uuid> {
    evidence.redriven.iter().map(|(old, copy)| (*copy, *old)).collect()
}

pub(super) fn check(evidence: &Evidence) -> Vec<Check> {
    let mut check = Check::of("a failed request is redriven once at most, as a request like it");
    let denied = Denied::of(evidence);
    let mut copies = HashMap::new();
    for (old, copy) in &evidence.redriven {
        check.examine();
        if let Some(other) = copies.insert(copy, old) {
            check.violated(*copy, format!("it is the copy of two requests, {other} and {old}"));
            continue;
        }
        let (Some(first), Some(second)) = (evidence.lives.get(old), evidence.lives.get(copy)) else {
            check.violated(*old, format!("it was redriven as {copy}, and one of them is not there"));
            continue;
        };
        // Of a link that a caller has made only the order is known.
        let by_operator = !evidence.resubmitted.contains(old);
        if let Some(what) = differs(first, second).filter(|_| by_operator) {
            check.violated(*copy, format!("its {what} is not that of {old}, which was redriven"));
        }
        if !matches!(&*first.status, "failure" | "timed_out") || first.finished_us > second.began_us() {
            check.violated(*old, format!("it was redriven as {copy} before it had failed"));
        }
        let excluded = excluded(evidence, &denied, (*old, first), second.began_us());
        if let Some(reason) = excluded.filter(|_| by_operator) {
            check.violated(*old, format!("it was redriven as {copy}, though {reason}"));
        }
    }
    vec![check]
}

/// What a copy has not in common with its original.
fn differs(first: &Life, second: &Life) -> Option<&'static str> {
    let fields = [
        ("kind", first.kind == second.kind),
        ("payload", first.mark == second.mark && first.poison == second.poison),
        ("submitter", first.submitter == second.submitter),
        ("callback", first.calls_back == second.calls_back),
    ];
    fields.into_iter().find(|(_, same)| !same).map(|(name, _)| name)
}

/// Why a request is only redriven when its code is named, which the suite never does, or by a command that may repeat it.
fn excluded(
    evidence: &Evidence,
    denied: &Denied,
    (id, life): (Uuid, &Life),
    at_us: Option<i64>,
) -> Option<&'static str> {
    let may_repeat = evidence.may_repeat.contains(&id) || evidence.repeatable.contains(&*life.kind);
    if life.error.as_deref() == Some("cancelled") {
        return Some("it was cancelled");
    }
    let was_not_executed = denied.was_not_executed(id, life, at_us.unwrap_or(i64::MAX));
    (!may_repeat && !was_not_executed).then_some("it was, or may have been, executed")
}
