//! The messages of the queues, and the gates that count them.

use super::{super::commands::Queue, HIGH_WATER, LOW_WATER, Message, Model};

impl Model {
    pub(super) fn depth(&self, queue: Queue) -> usize {
        self.queues[queue as usize].len() + self.leased(queue).count()
    }

    /// Whether the message that the request's row names waits.
    pub(super) fn has_message(&self, request: usize) -> bool {
        self.requests[request].place.is_some_and(|(queue, number)| {
            let mut messages = self.queues[queue as usize].iter();
            messages.any(|message| message.number == number)
        })
    }

    /// Whether a message stands for no request that waits in this queue.
    pub(super) fn is_stray(&self, queue: Queue, message: &Message) -> bool {
        let row = &self.requests[message.request];
        row.place != Some((queue, message.number)) || row.lease.is_some()
    }

    pub(super) fn put(&mut self, queue: Queue, request: usize) -> u64 {
        self.numbers += 1;
        self.add(queue, self.numbers, request, false);
        self.numbers
    }

    fn add(&mut self, queue: Queue, number: u64, request: usize, is_put_off: bool) {
        let messages = &mut self.queues[queue as usize];
        let place = messages.partition_point(|message| message.number < number);
        messages.insert(place, Message { number, request, is_put_off });
    }

    /// The request's lease ends, and its message waits again under its old number.
    pub(super) fn put_back(&mut self, request: usize, is_put_off: bool) {
        self.requests[request].lease = None;
        if let Some((queue, number)) = self.requests[request].place {
            self.add(queue, number, request, is_put_off);
        }
    }

    /// Messages have gone: the gate may open.
    pub(super) fn look_after_removal(&mut self, queue: Queue) -> bool {
        let depth = self.depth(queue);
        let gate = &mut self.gates[queue as usize];
        let opens = gate.closed && !gate.forced && depth <= LOW_WATER;
        gate.closed &= !opens;
        opens
    }

    /// Messages have come: the gate may close.
    pub(super) fn look_after_addition(&mut self, queue: Queue) -> bool {
        let depth = self.depth(queue);
        let gate = &mut self.gates[queue as usize];
        let closes = !gate.closed && !gate.forced && depth >= HIGH_WATER;
        gate.closed |= closes;
        closes
    }

    pub(super) fn remove(&mut self, queue: Queue, number: u64) {
        self.queues[queue as usize].retain(|message| message.number != number);
    }

    pub(super) fn some_have_left(&self, requests: &[usize], queue: Queue) -> bool {
        requests.iter().any(|&request| {
            let place = self.requests[request].place;
            place.is_none_or(|(place, _)| place != queue)
        })
    }

    pub(super) fn remove_stray_messages(&mut self, queue: Queue) -> String {
        let messages = std::mem::take(&mut self.queues[queue as usize]);
        let before = messages.len();
        let kept = messages.into_iter().filter(|message| !self.is_stray(queue, message)).collect();
        self.queues[queue as usize] = kept;
        let removed = before - self.queues[queue as usize].len();
        if removed > 0 {
            self.look_after_removal(queue);
        }
        removed.to_string()
    }

    pub(super) fn gates_evaluate(&mut self) -> usize {
        [Queue::Readiness, Queue::Tx]
            .into_iter()
            .filter(|&queue| {
                if self.gates[queue as usize].closed {
                    self.look_after_removal(queue)
                } else {
                    self.look_after_addition(queue)
                }
            })
            .count()
    }

    /// A gate is held by hand, or released: then it goes by its high mark.
    pub(super) fn force(&mut self, queue: Queue, closed: Option<bool>) -> String {
        let depth = self.depth(queue);
        let gate = &mut self.gates[queue as usize];
        let changes = match closed {
            None => gate.forced,
            Some(closed) => !(gate.forced && gate.closed == closed),
        };
        if changes {
            gate.closed = closed.unwrap_or(depth >= HIGH_WATER);
            gate.forced = closed.is_some();
        }
        changes.to_string()
    }
}
