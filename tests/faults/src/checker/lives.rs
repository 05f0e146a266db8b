//! Every request has one legal life, and it has ended.

use super::Check;
use crate::evidence::{Event, Evidence, Life};

/// The statuses that nothing leaves.
pub(super) const ENDS: [&str; 3] = ["completed", "timed_out", "failure"];

/// The edges of the specification: flows (their first letters), from, to, causes.
const EDGES: [(&str, &str, &str, &[&str]); 15] = [
    ("d", "", "queued", &["submitted"]),
    ("pi", "", "processing", &["submitted"]),
    ("d", "queued", "processing", &["readiness_passed"]),
    ("d", "queued", "timed_out", &["readiness_timed_out"]),
    ("d", "queued", "failure", &["readiness_failed", "cancelled", "internal_error", "deadline_exceeded"]),
    ("dpi", "processing", "tx_in_flight", &["claimed"]),
    (
        "dpi",
        "processing",
        "failure",
        &["send_refused", "cancelled", "internal_error", "deadline_exceeded", "attempts_exhausted"],
    ),
    ("dpi", "tx_in_flight", "receipt_received", &["receipt"]),
    ("i", "tx_in_flight", "completed", &["receipt"]),
    ("dpi", "tx_in_flight", "processing", &["recovered", "send_retried", "released"]),
    (
        "dpi",
        "tx_in_flight",
        "failure",
        &["rejected", "outcome_unknown", "cancelled", "internal_error", "deadline_exceeded", "attempts_exhausted"],
    ),
    ("di", "receipt_received", "completed", &["response", "threshold_reached"]),
    ("p", "receipt_received", "completed", &["verdict_accepted"]),
    ("p", "receipt_received", "failure", &["verdict_rejected"]),
    ("dpi", "receipt_received", "timed_out", &["response_timed_out"]),
];

pub(super) fn check(evidence: &Evidence) -> Vec<Check> {
    let mut ended = Check::of("every request has reached exactly one terminal status");
    let mut legal = Check::of("events form a legal path");
    let mut told = Check::of("events tell what the row says");
    let mut poison = Check::of("poison payloads end in failure with their reason");
    let mut rest = Check::of("no queue holds a message when all is at rest");
    let mut carried = Check::of("a default policy gives up no request in half of its deadline");
    for (id, life) in &evidence.lives {
        ended.examine();
        let ends = life.events.iter().filter(|event| ENDS.contains(&&*event.to)).count();
        if !ENDS.contains(&&*life.status) {
            ended.violated(*id, format!("it is {} for ever", life.status));
        } else if ends != 1 {
            ended.violated(*id, format!("it has ended {ends} times"));
        }

        legal.examine();
        if let Some(what) = illegal(life) {
            legal.violated(*id, what);
        }

        told.examine();
        let last = life.events.last().map(|event| &event.to);
        if last != Some(&life.status) || life.transition_no as usize != life.events.len() {
            told.violated(
                *id,
                format!(
                    "its row is {} after {} transitions, its history has {} and ends in {last:?}",
                    life.status,
                    life.transition_no,
                    life.events.len()
                ),
            );
        }

        if let Some(carried_us) = evidence.carried_us.get(&*life.kind) {
            carried.examine();
            if let (Some(first), Some(last)) = (life.events.first(), life.events.last()) {
                let lived_us = last.at_us - first.at_us;
                let is_given_up = matches!(&*last.cause, "attempts_exhausted" | "deadline_exceeded");
                if is_given_up && !life.poison && lived_us < *carried_us {
                    carried.violated(*id, format!("{} after {lived_us} us", last.cause));
                }
            }
        }

        if life.poison {
            poison.examine();
            let is_over = &*life.status == "failure" && life.error.is_some();
            if !is_over {
                poison.violated(*id, format!("it is {} with error {:?}", life.status, life.error));
            }
        }
    }
    for id in &evidence.orphans {
        told.violated(*id, "it has events and no row");
    }
    for (queue, left) in &evidence.messages {
        rest.examine();
        if *left > 0 {
            rest.violated(None, format!("{left} messages are left in {queue}"));
        }
    }
    vec![ended, legal, told, poison, rest, carried]
}

fn illegal(life: &Life) -> Option<String> {
    // `decrypt`, `proof` and, since d is taken, d-i-rect.
    let flow = match &*life.flow {
        "decrypt" => "d",
        "proof" => "p",
        "direct" => "i",
        other => return Some(format!("its flow is {other}")),
    };
    let mut before: Option<&Event> = None;
    for (event, number) in life.events.iter().zip(1..) {
        let from = event.from.as_deref().unwrap_or("");
        if event.number != number {
            return Some(format!("event {number} is missing"));
        }
        if from != before.map_or("", |before| &*before.to) {
            return Some(format!("event {number} starts from another status than the one before left"));
        }
        if before.is_some_and(|before| before.at_us > event.at_us) {
            return Some(format!("event {number} is older than the one before"));
        }
        let is_listed =
            EDGES.iter().any(|(flows, old, new, causes)| {
                flows.contains(flow) && *old == from && *new == &*event.to && (causes.contains(&&*event.cause))
            }) || (from == "receipt_received" && &*event.to == "failure" && &*event.cause == "internal_error");
        if !is_listed {
            return Some(format!("event {number} is illegal: {from} → {} ({})", event.to, event.cause));
        }
        before = Some(event);
    }
    None
}
