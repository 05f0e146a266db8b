//! Settles: the outcomes of checks and sends.

use super::{
    super::commands::{Check, Pick, Queue, Sent, Wait},
    ATTEMPTS, KINDS, Lease, Model, Status, is_at_most_once, is_at_once,
};

/// Whether the next attempt waits: the downstream's wish lengthens the backoff, and never shortens it or ends a request.
fn is_put_off(kind: usize, attempts: u32, wait: Wait) -> bool {
    !is_at_once(kind) || attempts >= ATTEMPTS || wait == Wait::TooLong
}

impl Model {
    /// What the outcomes of sends tell about requests that others have ended; each lease tells it once.
    fn settle_late(&mut self, sent: Sent, picks: &[Pick]) {
        let leases = picks.iter().filter_map(|pick| pick.of(&self.leases[Queue::Tx as usize]));
        let mut late: Vec<Lease> = leases.copied().collect();
        late.sort_by_key(|lease| lease.request);
        for Lease { request, token } in late {
            let row = &mut self.requests[request];
            if row.ended_lease != Some(token) {
                continue;
            }
            row.ended_lease = None;
            match sent {
                Sent::Receipt { reference, answered } => {
                    row.has_reference |= reference;
                    if answered {
                        self.keep_late(request);
                        self.is_executed(request);
                    }
                }
                Sent::Rejected | Sent::Retry { left: Some(false), .. } => {
                    row.unsent += 1;
                    if row.attempts == row.unsent && row.executed == "unknown" {
                        row.executed = "no";
                    }
                }
                Sent::Retry { .. } => {}
            }
        }
    }

    pub(super) fn settle_checks(&mut self, check: Check, picks: &[Pick]) -> Vec<String> {
        let held = self.held(Queue::Readiness, picks, Status::Queued);
        let tokens = self.tokens(&held);
        for &request in &held {
            match check {
                Check::Passed => {
                    self.finish(request, Status::Processing, "readiness_passed");
                    let number = self.put(Queue::Tx, request);
                    self.requests[request].place = Some((Queue::Tx, number));
                }
                Check::Failed => self.finish(request, Status::Failure, "readiness_failed"),
                Check::Snooze { wait, code } => self.snooze(request, wait, code),
            }
        }
        self.end_leases(&tokens);
        if self.some_have_left(&held, Queue::Readiness) {
            self.look_after_removal(Queue::Readiness);
            if check == Check::Passed {
                self.look_after_addition(Queue::Tx);
            }
        }
        self.moved(held.into_iter())
    }

    fn snooze(&mut self, request: usize, wait: Wait, code: Option<&'static str>) {
        let row = &self.requests[request];
        if code.is_some_and(|code| !is_retried(code)) {
            self.finish(request, Status::Failure, "readiness_failed");
            return;
        }
        let overdue = row.readiness_deadline_passed || row.deadline_passed;
        let is_put_off = is_put_off(row.kind, row.checks, wait) && !overdue;
        if code.is_some() && (row.checks - row.waits >= ATTEMPTS || overdue) {
            self.finish(request, Status::TimedOut, "readiness_timed_out");
        } else {
            self.requests[request].waits += u32::from(code.is_none());
            self.put_back(request, is_put_off);
        }
    }

    pub(super) fn settle_sends(&mut self, sent: Sent, picks: &[Pick]) -> Vec<String> {
        let held = self.held(Queue::Tx, picks, Status::TxInFlight);
        let tokens = self.tokens(&held);
        self.settle_late(sent, picks);
        for &request in &held {
            match sent {
                Sent::Receipt { reference, answered } => self.receipt(request, reference, answered),
                Sent::Rejected => {
                    self.requests[request].unsent += 1;
                    self.finish(request, Status::Failure, "rejected");
                }
                Sent::Retry { wait, code, left } => self.retry(request, wait, code, left),
            }
        }
        self.end_leases(&tokens);
        if self.some_have_left(&held, Queue::Tx) {
            self.look_after_removal(Queue::Tx);
        }
        self.moved(held.into_iter())
    }

    fn receipt(&mut self, request: usize, reference: bool, answered: bool) {
        let kind = KINDS[self.requests[request].kind];
        self.requests[request].has_reference = reference;
        if kind == "direct" && answered {
            self.finish(request, Status::Completed, "receipt");
            return;
        }
        self.finish(request, Status::ReceiptReceived, "receipt");
        self.apply_inbox(request);
        // An answer that is there with the receipt counts as the one that came after all others.
        if answered {
            let fits = kind == "public_decrypt";
            let awaited = self.requests[request].status == Status::ReceiptReceived;
            if fits && awaited {
                self.go(request, Status::Completed, "response");
            } else {
                self.keep_late(request);
            }
        }
    }

    fn retry(&mut self, request: usize, wait: Wait, code: &'static str, left: Option<bool>) {
        let row = &self.requests[request];
        let at_most_once = is_at_most_once(row.kind);
        let is_refused = code.starts_with("http_4") && !is_retried(code);
        let left_now = left.unwrap_or(true) && !is_refused;
        let left = left_now || row.attempts - 1 > row.unsent;
        let (attempts, is_cancelled, deadline_passed) =
            (row.attempts - row.unsent, row.is_cancelled, row.deadline_passed);
        let is_put_off = is_put_off(row.kind, row.attempts, wait);
        self.requests[request].unsent += u32::from(!left_now);
        let cause = if at_most_once && left {
            "outcome_unknown"
        } else if is_refused {
            "rejected"
        } else if !is_retried(code) {
            if left { "outcome_unknown" } else { "rejected" }
        } else if left_now && attempts >= ATTEMPTS {
            "attempts_exhausted"
        } else if deadline_passed {
            "deadline_exceeded"
        } else if is_cancelled {
            "cancelled"
        } else {
            self.go(request, Status::Processing, "send_retried");
            self.put_back(request, is_put_off);
            return;
        };
        self.finish(request, Status::Failure, cause);
    }
}

fn is_retried(code: &str) -> bool {
    matches!(code, "timeout" | "http_503" | "http_429")
}
