//! What the model shows: what there is for the actors to do, and everything as text to compare.

use super::{
    super::commands::{Order, Queue},
    KINDS, Kept, Known, Model, SUBMITTERS, Status,
};

impl Model {
    /// The leases that are held still, even if they have run out, counted from the last that was given out.
    pub fn still_held(&self, queue: Queue) -> Vec<usize> {
        let leases = self.leases[queue as usize].iter().rev().enumerate();
        leases
            .filter(|(_, lease)| self.requests[lease.request].lease == Some(lease.token))
            .map(|(back, _)| back)
            .collect()
    }

    /// The requests that a downstream may know.
    pub fn sent(&self) -> Vec<usize> {
        let may_be_known = |&request: &usize| {
            let status = self.requests[request].status;
            matches!(status, Status::ReceiptReceived | Status::TxInFlight)
        };
        (0..self.requests.len()).filter(may_be_known).collect()
    }

    /// The submissions whose keys are known.
    pub fn keyed(&self) -> Vec<Order> {
        let order = |(&(kind, submitter, key), known): (&(usize, usize, u8), &Known)| Order {
            kind,
            submitter,
            key: Some(key),
            payload: known.payload,
            enforced: true,
        };
        self.keys.iter().map(order).collect()
    }

    /// The requests that await a response.
    pub fn awaiting(&self) -> Vec<usize> {
        let awaits = |request: &usize| self.requests[*request].status == Status::ReceiptReceived;
        (0..self.requests.len()).filter(awaits).collect()
    }

    /// The queues in which a claim finds something.
    pub fn where_something_waits(&self) -> Vec<Queue> {
        let in_queue = self.queues_with_messages(false);
        let run_out = self.queues_with_leases(true);
        [Queue::Readiness, Queue::Tx]
            .into_iter()
            .filter(|queue| in_queue.contains(queue) || run_out.contains(queue))
            .collect()
    }

    pub fn where_something_is_held(&self) -> Vec<Queue> {
        self.queues_with_leases(false)
    }

    pub fn where_something_is_put_off(&self) -> Vec<Queue> {
        self.queues_with_messages(true)
    }

    fn queues_with_messages(&self, put_off: bool) -> Vec<Queue> {
        let has = |queue: &Queue| {
            let messages = &self.queues[*queue as usize];
            messages.iter().any(|message| message.is_put_off == put_off)
        };
        [Queue::Readiness, Queue::Tx].into_iter().filter(has).collect()
    }

    fn queues_with_leases(&self, run_out: bool) -> Vec<Queue> {
        [Queue::Readiness, Queue::Tx]
            .into_iter()
            .filter(|&queue| {
                let mut leased = self.leased(queue);
                leased.any(|(_, has_run_out)| has_run_out == run_out)
            })
            .collect()
    }

    pub fn kind(&self, request: usize) -> &'static str {
        KINDS[self.requests[request].kind]
    }

    /// Everything, as text to compare: what the database must say of itself now.
    pub fn describe(&self) -> String {
        let mut lines = Vec::new();
        for (number, row) in self.requests.iter().enumerate() {
            let kept = |late| {
                let its = |kept: &&Kept| kept.to == number && kept.late == late;
                self.inbox.iter().filter(its).count()
            };
            lines.push(format!(
                "{number} {} executed {} checks {} attempts {} parts {} early {} late {} awaited {}: {}",
                row.status.word(),
                if row.status == Status::Completed { "yes" } else { row.executed },
                row.checks,
                row.attempts,
                row.parts.len(),
                kept(false),
                kept(true),
                row.status == Status::ReceiptReceived,
                row.causes.join(" "),
            ));
        }
        for queue in [Queue::Readiness, Queue::Tx] {
            let gate = &self.gates[queue as usize];
            let waiting = self.queues[queue as usize].iter().map(|message| {
                let hold = if message.is_put_off { "later" } else { "free" };
                let stray = self.is_stray(queue, message);
                let stray = if stray { " stray" } else { "" };
                (message.number, format!(" {}:{hold}{stray}", message.request))
            });
            let leased = self.leased(queue).filter_map(|(request, run_out)| {
                let hold = if run_out { "lapsed" } else { "held" };
                let (_, number) = self.requests[request].place?;
                Some((number, format!(" {request}:{hold}")))
            });
            let mut all: Vec<_> = waiting.chain(leased).collect();
            all.sort();
            lines.push(format!(
                "{} {}{} {}:{}",
                queue.name(),
                if gate.closed { "too_many_requests" } else { "accepting" },
                if gate.forced { " forced" } else { "" },
                self.depth(queue),
                all.into_iter().map(|(_, text)| text).collect::<String>(),
            ));
        }
        for ((kind, submitter, key), known) in &self.keys {
            lines.push(format!(
                "{}:{} key-{key} {}{}{}",
                KINDS[*kind],
                SUBMITTERS[*submitter],
                known.request,
                if known.is_due { " due" } else { "" },
                if self.stands(known) { "" } else { " free" }
            ));
        }
        lines.sort();
        lines.join("\n")
    }
}
