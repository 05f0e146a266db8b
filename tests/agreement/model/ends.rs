//! How requests end: by an outcome, a cancel, an operator, a deadline, recovery.

use std::collections::BTreeSet;

use super::{
    super::commands::{End, Queue},
    Answer, KINDS, Model, Status, is_at_most_once,
};

impl Model {
    pub(super) fn go(&mut self, request: usize, status: Status, cause: &'static str) {
        let row = &self.requests[request];
        let may_be_executed = row.attempts > row.unsent;
        let is_answered = self.inbox.iter().any(|kept| {
            let is_its = kept.late || !kept.by_reference || (row.has_reference && may_be_executed);
            kept.to == request && is_its && kept.part.is_none()
        });
        let row = &mut self.requests[request];
        row.status = status;
        row.causes.push(cause);
        if matches!(status, Status::Failure | Status::TimedOut) {
            row.executed = match (may_be_executed, is_answered) {
                (_, true) => "yes",
                (true, false) => "unknown",
                (false, false) => "no",
            };
        }
    }

    /// The request leaves its queue: its message goes, and its lease ends. The caller looks at the gate.
    pub(super) fn finish(&mut self, request: usize, status: Status, cause: &'static str) {
        self.go(request, status, cause);
        self.requests[request].lease = None;
        if let Some((queue, number)) = self.requests[request].place.take() {
            self.remove(queue, number);
        }
    }

    /// Another than its holder ends the request.
    pub(super) fn end_outside(&mut self, request: usize, status: Status, cause: &'static str) {
        self.requests[request].ended_lease = self.requests[request].lease;
        self.finish(request, status, cause);
    }

    pub(super) fn cancel(&mut self, request: usize) -> String {
        match self.requests[request].status {
            Status::Queued | Status::Processing => {
                let queue = self.requests[request].place.map(|(queue, _)| queue);
                self.finish(request, Status::Failure, "cancelled");
                if let Some(queue) = queue {
                    self.look_after_removal(queue);
                }
                "cancelled failure".to_owned()
            }
            Status::Failure if self.requests[request].causes.last() == Some(&"cancelled") => {
                "cancelled failure".to_owned()
            }
            Status::TxInFlight => {
                self.requests[request].is_cancelled = true;
                "cancelling tx_in_flight".to_owned()
            }
            status => format!("not_cancellable {}", status.word()),
        }
    }

    /// What ends requests from outside any lease: the status that it leads to, with the cause, or nothing.
    fn ends(&self, end: End, request: usize) -> Option<(Status, &'static str)> {
        let row = &self.requests[request];
        match (end, row.status) {
            (_, status) if status.is_terminal() => None,
            (End::FailInternal, _) => Some((Status::Failure, "internal_error")),
            (End::FailReceipt, Status::ReceiptReceived) => Some((Status::Failure, "rejected")),
            (End::FailTx, Status::Processing) => Some((Status::Failure, "send_refused")),
            (End::FailTx, Status::TxInFlight) => Some((Status::Failure, "rejected")),
            (End::FailTx, Status::ReceiptReceived) if KINDS[row.kind] == "input_proof" => {
                Some((Status::Failure, "verdict_rejected"))
            }
            (End::TimeOut | End::Readiness, Status::Queued) => Some((Status::TimedOut, "readiness_timed_out")),
            (End::TimeOut | End::Response, Status::ReceiptReceived) => Some((Status::TimedOut, "response_timed_out")),
            (End::Deadline, Status::Queued | Status::Processing | Status::TxInFlight) => {
                Some((Status::Failure, "deadline_exceeded"))
            }
            _ => None,
        }
    }

    fn end_all(&mut self, end: End, requests: &[usize]) -> Vec<String> {
        let mut moved = Vec::new();
        let mut queues = BTreeSet::new();
        for &request in requests {
            if let Some((status, cause)) = self.ends(end, request) {
                queues.extend(self.requests[request].place.map(|(queue, _)| queue));
                self.end_outside(request, status, cause);
                if end == End::FailReceipt {
                    self.requests[request].executed = "no";
                    self.requests[request].is_taken_back = true;
                }
                moved.push(request);
            }
        }
        for queue in queues {
            self.look_after_removal(queue);
        }
        self.moved(moved.into_iter())
    }

    pub(super) fn end_by_hand(&mut self, end: End, request: usize) -> Vec<String> {
        self.end_all(end, &[request])
    }

    pub(super) fn sweep(&mut self, end: End) -> String {
        let due: Vec<_> = (0..self.requests.len())
            .filter(|&request| {
                let row = &self.requests[request];
                match end {
                    End::Readiness => row.readiness_deadline_passed,
                    End::Deadline => row.deadline_passed,
                    _ => row.response_overdue,
                }
            })
            .collect();
        self.end_all(end, &due).len().to_string()
    }

    pub(super) fn recover(&mut self, all: bool, force: bool) -> Answer {
        let live = self.leased(Queue::Tx).any(|(_, run_out)| !run_out);
        if all && !force && live {
            return Err("TG007");
        }
        let (mut reset, mut ended, mut rebuilt) = (0, 0, 0);
        let mut gone = false;
        for request in 0..self.requests.len() {
            let row = &self.requests[request];
            if row.place.is_none() {
                continue;
            }
            let run_out = self.lease_has_run_out(request);
            let is_there = run_out.is_some() || self.has_message(request);
            let lost = row.status == Status::TxInFlight && (all || run_out != Some(false));
            let cause = if is_at_most_once(row.kind) { "outcome_unknown" } else { "cancelled" };
            if lost && (is_at_most_once(row.kind) || row.is_cancelled) {
                gone |= is_there;
                ended += 1;
                self.end_outside(request, Status::Failure, cause);
                continue;
            }
            if lost {
                reset += 1;
                self.go(request, Status::Processing, "recovered");
                self.requests[request].lease = None;
            }
            if !is_there {
                rebuilt += 1;
            }
            if (lost || !is_there) && !self.has_message(request) {
                self.put_back(request, false);
            }
        }
        if gone {
            self.look_after_removal(Queue::Tx);
        }
        if rebuilt > 0 {
            self.look_after_addition(Queue::Readiness);
            self.look_after_addition(Queue::Tx);
        }
        Ok(vec![format!("{reset} {ended} {rebuilt} 0")])
    }
}
