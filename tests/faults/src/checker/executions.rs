//! What the downstream has executed, by the keys of callers, and what they and operators are told of it.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;
use uuid::Uuid;

use super::{Check, keys::SUBMISSION_US};
use crate::evidence::{Evidence, Life};

/// The requests that an operator said were not executed, and since when, in microseconds of Unix time.
pub(super) struct Denied(HashMap<Uuid, i64>);

impl Denied {
    pub(super) fn of(evidence: &Evidence) -> Self {
        let mut denied = HashMap::new();
        for word in evidence.resolutions.iter().filter(|word| !word.executed) {
            for id in [word.id, evidence.send_id(word.id)] {
                let since = denied.entry(id).or_insert(word.at_us);
                *since = word.at_us.min(*since);
            }
        }
        Self(denied)
    }

    fn is_denied(&self, id: Uuid, at_us: i64) -> bool {
        self.0.get(&id).is_some_and(|since| *since <= at_us)
    }

    /// Whether it was known at a time that a request was not executed, or an operator had said so.
    pub(super) fn was_not_executed(&self, id: Uuid, life: &Life, at_us: i64) -> bool {
        let is_known = &*life.executed == "no" && life.known_us.is_some_and(|since| since <= at_us);
        is_known || self.is_denied(id, at_us)
    }
}

pub(super) fn check(evidence: &Evidence) -> Vec<Check> {
    let denied = Denied::of(evidence);
    let executed: HashSet<Uuid> = executions(evidence).map(|(id, ..)| id).collect();
    vec![
        once(evidence, &denied),
        facts(evidence, &denied, &executed),
        told(evidence, &denied, &executed),
        cancels(evidence),
    ]
}

/// What the downstream has executed: the request, when, and with which key.
fn executions(evidence: &Evidence) -> impl Iterator<Item = (Uuid, i64, &str, Option<&str>)> {
    let taken = evidence.downstream.iter().filter(|seen| &*seen.event == "taken");
    taken.filter_map(|seen| Some((seen.id?, seen.at_us, &*seen.kind, seen.key.as_deref())))
}

/// An execution under a key.
struct Execution {
    /// When its request was accepted.
    began_us: i64,
    at_us: i64,
    id: Uuid,
}

/// The downstream knows a request by its id, and executes it once: another request with the key is another execution.
fn once(evidence: &Evidence, denied: &Denied) -> Check {
    let mut check = Check::of("no key is executed twice while it stands");
    let mut by_key = BTreeMap::<(&str, &str), BTreeMap<Uuid, i64>>::new();
    let mut began_us = i64::MAX;
    for (id, at_us, kind, key) in executions(evidence) {
        began_us = began_us.min(at_us);
        if let Some(key) = key
            && !evidence.repeatable.contains(kind)
        {
            by_key.entry((kind, key)).or_default().entry(id).or_insert(at_us);
        }
    }
    for ((kind, key), ids) in by_key {
        check.examine();
        let mut executions: Vec<_> = ids
            .into_iter()
            .map(|(id, at_us)| {
                let began_us = evidence.lives.get(&id).and_then(Life::began_us).unwrap_or(at_us);
                Execution { began_us, at_us, id }
            })
            .collect();
        executions.sort_by_key(|execution| execution.began_us);
        for (place, later) in executions.iter().enumerate() {
            let earlier = executions[..place].iter();
            let mut standing = earlier.filter(|earlier| !may_follow(evidence, denied, kind, earlier.id, later));
            if let Some(first) = standing.next() {
                let seconds = (later.at_us.max(first.at_us) - began_us) as f64 / 1e6;
                check.violated(
                    later.id,
                    format!(
                        "{key} was executed as {} and again as this, {seconds:.1} s after the first of all executions",
                        first.id
                    ),
                );
            }
        }
    }
    check
}

/// Whether a request may be executed though an earlier one with its key was: an operator had said that this was not, or
/// has redriven it all the same, or the window of its key was over.
fn may_follow(evidence: &Evidence, denied: &Denied, kind: &str, earlier: Uuid, later: &Execution) -> bool {
    let Some(life) = evidence.lives.get(&earlier) else {
        return false;
    };
    let window_us = evidence.windows_us.get(kind).copied();
    denied.is_denied(earlier, later.began_us)
        || is_repeated_as(evidence, earlier, later.id)
        || window_us.is_some_and(|window| life.is_over(window, later.began_us))
}

/// Whether an operator has redriven a request as another one, and accepted that its effects may be repeated.
fn is_repeated_as(evidence: &Evidence, mut id: Uuid, copy: Uuid) -> bool {
    let mut may_repeat = false;
    while let Some(next) = evidence.redriven.get(&id) {
        may_repeat |= evidence.may_repeat.contains(&id);
        id = *next;
        if id == copy {
            return may_repeat;
        }
    }
    false
}

impl Life {
    /// Whether the window of its key was over at a time: it begins with the submission of a completed request, and with
    /// the end of another. A key stands for a request that lives.
    pub(super) fn is_over(&self, window_us: i64, at_us: i64) -> bool {
        let from_us = match &*self.status {
            "completed" => self.began_us(),
            _ => self.finished_us,
        };
        let has_ended = self.finished_us.is_some_and(|finished| finished <= at_us);
        has_ended && from_us.is_some_and(|from| from + window_us - SUBMISSION_US <= at_us)
    }
}

/// What the database has of a request that was not completed agrees with the downstream's log.
fn facts(evidence: &Evidence, denied: &Denied, executed: &HashSet<Uuid>) -> Check {
    let mut check = Check::of("what the database says of an execution is so");
    for (id, life) in &evidence.lives {
        if life.finished_us.is_none() || &*life.status == "completed" {
            continue;
        }
        check.examine();
        if let Some(what) = contradiction(evidence, denied, executed, *id, &life.executed) {
            check.violated(*id, what);
        }
    }
    check
}

/// What is wrong about a word, if anything: a no of what was executed, unless an operator had said so before, or a yes
/// of what was not. A no of a request that repeats another, or was repeated, is about its own sends only.
fn contradiction(
    evidence: &Evidence,
    denied: &Denied,
    executed: &HashSet<Uuid>,
    id: Uuid,
    word: &str,
) -> Option<&'static str> {
    let send_id = evidence.send_id(id);
    let copy = evidence.redriven.get(&id);
    let is_alone = send_id == id && copy.is_none_or(|copy| evidence.send_id(*copy) != id);
    match (word, executed.contains(&send_id)) {
        ("no", true) if is_alone && !denied.is_denied(id, i64::MAX) => {
            Some("executed is no, and the downstream has executed it")
        }
        ("yes", false) => Some("executed is yes, and the downstream has not executed it"),
        _ => None,
    }
}

/// What callers read, and what their webhooks say, agrees with the downstream's log, at any time.
fn told(evidence: &Evidence, denied: &Denied, executed: &HashSet<Uuid>) -> Check {
    let mut check = Check::of("what callers are told of an execution is so");
    for told in &evidence.told {
        let Some(word) = &told.executed else {
            continue;
        };
        check.examine();
        let kind = evidence.lives.get(&told.id).map_or("", |life| &*life.kind);
        if let Some(what) = contradiction(evidence, denied, executed, told.id, word) {
            check.violated(told.id, what);
        } else if told.retryable && word != "no" && !evidence.repeatable.contains(kind) {
            check.violated(told.id, format!("retryable, and executed is {word}"));
        }
    }
    for arrival in &evidence.arrivals {
        let body: Value = serde_json::from_str(&arrival.body).unwrap_or_default();
        let id = body["job_id"].as_str().and_then(|id| id.parse().ok());
        if let (Some(id), Some(word)) = (id, body["executed"].as_str()) {
            check.examine();
            if let Some(what) = contradiction(evidence, denied, executed, id, word) {
                check.violated(id, format!("by a webhook, {what}"));
            }
        }
    }
    check
}

/// After the answer to a cancel, a request is not sent again; a receipt whose effect failed makes the cancel void.
fn cancels(evidence: &Evidence) -> Check {
    let mut check = Check::of("a request whose cancel was answered is not sent again");
    for cancel in evidence.cancels.iter().filter(|cancel| matches!(cancel.status, 200 | 202)) {
        let Some(life) = evidence.lives.get(&cancel.id) else {
            continue;
        };
        if evidence.exactly_once.contains(&*life.kind) {
            continue;
        }
        check.examine();
        let sent = life.events.iter().any(|event| &*event.cause == "claimed" && event.at_us > cancel.at_us);
        if sent {
            check.violated(cancel.id, format!("claimed after a cancel was answered with {}", cancel.status));
        }
    }
    check
}
