//! Submissions: keys, the room at the gates, new requests.

use std::collections::BTreeSet;

use super::{
    super::commands::{Order, Queue},
    Answer, HIGH_WATER, Known, Model, Request, Status, is_checked, is_repeatable,
};

fn entry(kind: usize) -> Queue {
    if is_checked(kind) { Queue::Readiness } else { Queue::Tx }
}

impl Model {
    /// Whether a key stands for its request still.
    pub(super) fn stands(&self, known: &Known) -> bool {
        let row = &self.requests[known.request];
        match row.status {
            Status::Completed => !known.is_over,
            // The window since such an end is never over here.
            Status::Failure | Status::TimedOut => row.executed != "no" && !is_repeatable(row.kind),
            _ => true,
        }
    }

    pub(super) fn insert(&mut self, kind: usize) -> usize {
        let request = self.requests.len();
        let queue = entry(kind);
        let number = self.put(queue, request);
        let status = if is_checked(kind) { Status::Queued } else { Status::Processing };
        self.requests.push(Request {
            kind,
            status,
            causes: vec!["submitted"],
            checks: 0,
            waits: 0,
            attempts: 0,
            unsent: 0,
            is_cancelled: false,
            executed: "-",
            ended_lease: None,
            is_taken_back: false,
            place: Some((queue, number)),
            lease: None,
            readiness_deadline_passed: false,
            deadline_passed: false,
            response_overdue: false,
            has_reference: false,
            parts: BTreeSet::new(),
        });
        request
    }

    /// How many more the gates let in; a gate that counts and is full closes.
    fn room(&self, kind: usize) -> usize {
        let closed = |queue: Queue| self.gates[queue as usize].closed;
        if closed(entry(kind)) || closed(Queue::Tx) {
            0
        } else if self.gates[entry(kind) as usize].forced {
            usize::MAX
        } else {
            HIGH_WATER.saturating_sub(self.depth(entry(kind)))
        }
    }

    /// After an enforced submission: one that was let in where a gate counts has seen its depth.
    fn look_after_submission(&mut self, kind: usize, was_closed: bool) {
        if !was_closed {
            self.look_after_addition(entry(kind));
        }
    }

    pub(super) fn submit(&mut self, order: &Order) -> Answer {
        let kind = order.kind;
        let key = order.key.map(|key| (kind, order.submitter, key));
        let known = key.and_then(|key| self.keys.get(&key)).filter(|known| self.stands(known));
        let known = match known {
            Some(known) if known.payload != order.payload => return Err("TG004"),
            known => known.map(|known| known.request),
        };
        // A replay passes no gate.
        if let Some(request) = known {
            return Ok(vec![format!("{request} replayed")]);
        }
        let was_closed = [entry(kind), Queue::Tx].into_iter().any(|queue| self.gates[queue as usize].closed);
        let answer = if order.enforced && self.room(kind) == 0 {
            "refused".to_owned()
        } else {
            let request = self.insert(kind);
            if let Some(key) = key {
                let known = Known { request, payload: order.payload, is_over: false, is_due: false };
                self.keys.insert(key, known);
            }
            if !order.enforced {
                self.look_after_addition(entry(kind));
            }
            format!("{request} accepted")
        };
        if order.enforced {
            self.look_after_submission(kind, was_closed);
        }
        Ok(vec![answer])
    }

    pub(super) fn submit_batch(&mut self, kind: usize, count: usize) -> Vec<String> {
        let was_closed = [entry(kind), Queue::Tx].into_iter().any(|queue| self.gates[queue as usize].closed);
        let answers = if self.room(kind) < count {
            vec!["refused".to_owned(); count]
        } else {
            (0..count).map(|_| format!("{} accepted", self.insert(kind))).collect()
        };
        self.look_after_submission(kind, was_closed);
        answers
    }
}
