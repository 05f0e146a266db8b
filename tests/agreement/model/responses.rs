//! Responses, and the inbox of those that came early or late.

use super::{super::commands::Reply, KINDS, Kept, Model, Status, THRESHOLD};

/// Whether a response fits the kind.
fn fits(kind: usize, part: Option<usize>, accept: Option<bool>) -> bool {
    match KINDS[kind] {
        "input_proof" => part.is_none() && accept.is_some(),
        "user_decrypt" => part.is_some() && accept.is_none(),
        "public_decrypt" => accept.is_none(),
        _ => part.is_none() && accept.is_none(),
    }
}

impl Model {
    /// An answer that came with a receipt, and does not answer the request, is kept.
    pub(super) fn keep_late(&mut self, request: usize) {
        self.inbox.push(Kept { to: request, by_reference: false, part: None, accept: None, late: true });
    }

    /// The downstream has answered a request that has ended.
    pub(super) fn is_executed(&mut self, request: usize) {
        let row = &mut self.requests[request];
        if matches!(row.status, Status::Failure | Status::TimedOut) && !row.is_taken_back {
            row.executed = "yes";
        }
    }

    /// The outcome of a response, and the request, if it is known.
    pub(super) fn respond(&mut self, reply: Reply) -> Result<(&'static str, Option<usize>), &'static str> {
        let Reply { request: to, by_reference, part, accept } = reply;
        let keep = |late| Kept { to, by_reference, part, accept, late };
        if by_reference && !self.requests[to].has_reference {
            self.inbox.push(keep(false));
            return Ok(("early", None));
        }
        if !fits(self.requests[to].kind, part, accept) {
            return Err("TG007");
        }
        let status = self.requests[to].status;
        let outcome = if status == Status::ReceiptReceived {
            self.apply(to, part, accept).unwrap_or_default()
        } else {
            self.inbox.push(keep(status.is_terminal()));
            if status.is_terminal() && part.is_none() {
                self.is_executed(to);
            }
            if status.is_terminal() { "late" } else { "early" }
        };
        Ok((outcome, Some(to)))
    }

    pub(super) fn told(&self, outcome: &str, known: Option<usize>) -> String {
        match known {
            Some(request) => format!("{outcome} {request} {}", self.requests[request].status.word()),
            None => outcome.to_owned(),
        }
    }

    /// What a response does to a request; nothing to one that does not await it or that it does not fit.
    fn apply(&mut self, request: usize, part: Option<usize>, accept: Option<bool>) -> Option<&'static str> {
        let row = &mut self.requests[request];
        if row.status != Status::ReceiptReceived || !fits(row.kind, part, accept) {
            return None;
        }
        if let Some(part) = part {
            if !row.parts.insert(part) {
                return Some("duplicate");
            }
            let wanted = if KINDS[row.kind] == "user_decrypt" { THRESHOLD } else { 1 };
            if row.parts.len() < wanted {
                return Some("stored");
            }
            self.go(request, Status::Completed, "threshold_reached");
            return Some("completed");
        }
        match accept {
            Some(true) => self.go(request, Status::Completed, "verdict_accepted"),
            Some(false) => {
                self.go(request, Status::Failure, "verdict_rejected");
                self.requests[request].executed = "yes";
            }
            None => self.go(request, Status::Completed, "response"),
        }
        Some(if accept == Some(false) { "rejected" } else { "completed" })
    }

    /// The responses that were kept for a request which awaits them now, or never will; how many were applied.
    pub(super) fn apply_inbox(&mut self, request: usize) -> usize {
        let has_reference = self.requests[request].has_reference;
        let mut applied = 0;
        for kept in std::mem::take(&mut self.inbox) {
            let is_its = kept.to == request && (!kept.by_reference || has_reference) && !kept.late;
            if !is_its {
                self.inbox.push(kept);
            } else if self.apply(request, kept.part, kept.accept).is_some() {
                applied += 1;
            } else {
                if kept.part.is_none() {
                    self.is_executed(request);
                }
                self.inbox.push(Kept { late: true, ..kept });
            }
        }
        applied
    }

    pub(super) fn sweep_inbox(&mut self) -> usize {
        let mut applied = 0;
        for request in 0..self.requests.len() {
            let status = self.requests[request].status;
            if status == Status::ReceiptReceived || status.is_terminal() {
                applied += self.apply_inbox(request);
            }
        }
        applied
    }
}
